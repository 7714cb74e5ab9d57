//! How a record's bytes are read: floodmark's own JSON, another JSON through a mapping, or a text log.

use crate::config::Config;
use floodmark_model::wire::mapping::{Mapping, decode_mapped};
use floodmark_model::wire::{DecodeSettings, Rejected, json};
use floodmark_model::{Occurrence, RawRecord};

/// Reads records as the configuration says.
#[derive(Clone, Debug)]
pub struct Decoder {
    settings: DecodeSettings,
    mapping: Option<Mapping>,
}

impl Decoder {
    /// JSON, through the configured mapping where there is one.
    #[must_use]
    pub fn json(config: &Config) -> Self {
        let settings = DecodeSettings {
            max_record_bytes: config.limits.max_record_bytes,
            max_future_ms: config.time.max_future_ms,
            zone: config.time.zone.clone(),
        };
        Self { settings, mapping: config.mapping.clone() }
    }

    /// Reads one record; `None` where the configuration filters it out.
    ///
    /// # Errors
    ///
    /// When the record is a dead letter.
    pub fn decode<'a>(&'a self, record: RawRecord<'a>) -> Result<Option<Occurrence<'a>>, Rejected> {
        match &self.mapping {
            Some(mapping) => decode_mapped(record, mapping, &self.settings),
            None => json::decode(record, &self.settings).map(Some),
        }
    }
}
