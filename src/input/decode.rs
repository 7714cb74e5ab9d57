//! How a record's bytes are read: floodmark's own JSON, another JSON through a mapping, or a text log.

use crate::config::Config;
use floodmark_model::time::Zone;
use floodmark_model::wire::mapping::{Mapping, decode_mapped};
use floodmark_model::wire::text::{self, Framing, TextFormat};
use floodmark_model::wire::{DecodeSettings, Rejected, json};
use floodmark_model::{Occurrence, RawRecord};

/// Reads records as the configuration says.
#[derive(Clone, Debug)]
pub struct Decoder {
    settings: DecodeSettings,
    format: Format,
}

#[derive(Clone, Debug)]
enum Format {
    Own,
    Mapped(Box<Mapping>),
    Text(TextFormat),
}

impl Decoder {
    /// JSON, through the configured mapping where there is one.
    #[must_use]
    pub fn json(config: &Config) -> Self {
        let format = config.mapping.clone().map_or(Format::Own, |mapping| Format::Mapped(Box::new(mapping)));
        Self { settings: settings(config), format }
    }

    /// Records of a text log.
    #[must_use]
    pub fn text(config: &Config, format: TextFormat) -> Self {
        Self { settings: settings(config), format: Format::Text(format) }
    }

    /// The same decoder for times without a zone in another one.
    #[must_use]
    pub fn in_zone(mut self, zone: Zone) -> Self {
        self.settings.zone = zone;
        self
    }

    /// How a stream of such records is cut into them.
    #[must_use]
    pub fn framing(&self) -> Framing {
        match &self.format {
            Format::Text(format) => Framing::Text(format.clone()),
            Format::Own | Format::Mapped(_) => Framing::Lines,
        }
    }

    /// Whether these bytes begin a record, and do not go on with the one before.
    #[must_use]
    pub fn begins_record(&self, bytes: &[u8]) -> bool {
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
        match &self.format {
            Format::Own | Format::Mapped(_) => true,
            Format::Text(format) => format.begins_record(line.strip_suffix(b"\r").unwrap_or(line)),
        }
    }

    /// Reads one record; `None` where the configuration filters it out.
    ///
    /// # Errors
    ///
    /// When the record is a dead letter.
    pub fn decode<'a>(&'a self, record: RawRecord<'a>) -> Result<Option<Occurrence<'a>>, Rejected> {
        match &self.format {
            Format::Own => json::decode(record, &self.settings).map(Some),
            Format::Mapped(mapping) => decode_mapped(record, mapping, &self.settings),
            Format::Text(format) => text::decode(record, format, &self.settings).map(Some),
        }
    }
}

fn settings(config: &Config) -> DecodeSettings {
    DecodeSettings {
        max_record_bytes: config.limits.max_record_bytes,
        max_future_ms: config.time.max_future_ms,
        zone: config.time.zone.clone(),
    }
}
