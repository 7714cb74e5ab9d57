//! A field mapping as the configuration gives it, and what makes it unusable.

use super::super::assemble::TENANT_BYTES_MAX;
use super::super::fields::{Field, bool_text};
use super::Mapping;
use super::pointers::{Node, Target};
use crate::Fingerprint;
use crate::time::{TimeFormat, TimeFormatError, Zone};
use serde::{Deserialize, Serialize};

/// A field mapping as the configuration gives it. A field without a source is absent in every record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingConfig {
    /// Tenant.
    pub tenant: Option<Source>,
    /// When it happened.
    pub ts: Option<Source>,
    /// The message.
    pub message: Option<Source>,
    /// Name of the level.
    pub level: Option<Source>,
    /// Service name.
    pub service: Option<Source>,
    /// Host name.
    pub host: Option<Source>,
    /// Source, such as a logger.
    pub source: Option<Source>,
    /// Event type.
    #[serde(rename = "type")]
    pub kind: Option<Source>,
    /// The message's template.
    pub template_id: Option<Source>,
    /// The client's own fingerprint, 32 hex digits.
    pub fingerprint: Option<Source>,
    /// The client's own id of the event (I-2).
    pub event_id: Option<Source>,
    /// Exception type.
    pub exception_type: Option<Source>,
    /// Exception message, for records without a message.
    pub exception_message: Option<Source>,
    /// The form of `ts`, see [`TimeFormat`]; absent: the forms of T-1.
    pub time_format: Option<String>,
    /// IANA name of the zone of times without one; absent: that of the input.
    pub zone: Option<String>,
    /// Which records are read at all.
    pub filter: Option<FilterConfig>,
}

/// Where a field comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "want a JSON pointer such as \"/log/message\", or { constant = \"...\" }"
)]
pub enum Source {
    /// A JSON pointer (RFC 6901) into the record.
    Pointer(String),
    /// The same for every record.
    Constant {
        /// The value.
        constant: String,
    },
}

/// Only records in which a value is one of these are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterConfig {
    /// JSON pointer to the value.
    pub pointer: String,
    /// What it may be.
    pub equals: Vec<FilterValue>,
}

/// A value to compare with: a number equals the same digits written as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "want a text, an integer or a boolean")]
pub enum FilterValue {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// Text.
    Text(String),
}

/// A field mapping that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// Not a JSON pointer.
    #[error("mapping.{key} = {pointer:?}: {reason}")]
    Pointer {
        /// The configuration key.
        key: &'static str,
        /// The pointer.
        pointer: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A constant that cannot be.
    #[error("mapping.{key} = {{ constant = {constant:?} }}: {reason}")]
    Constant {
        /// The configuration key.
        key: &'static str,
        /// The constant.
        constant: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The form of time cannot be used.
    #[error("mapping.time_format: {0}")]
    TimeFormat(#[from] TimeFormatError),
    /// There is no such zone.
    #[error("mapping.zone = {name:?}: {reason}; want an IANA name such as Europe/Berlin")]
    Zone {
        /// The name.
        name: String,
        /// Why it was not found.
        reason: String,
    },
    /// A filter that no record passes.
    #[error("mapping.filter.equals is empty: no record would pass")]
    EmptyFilter,
    /// All records would be one bug.
    #[error(
        "mapping: nothing tells one bug from another; give message, exception_type, exception_message or fingerprint"
    )]
    NoMessage,
}

impl MappingConfig {
    fn sources(&self) -> [(Field, Option<&Source>); Field::COUNT] {
        [
            (Field::Tenant, self.tenant.as_ref()),
            (Field::Ts, self.ts.as_ref()),
            (Field::Message, self.message.as_ref()),
            (Field::Level, self.level.as_ref()),
            (Field::Service, self.service.as_ref()),
            (Field::Host, self.host.as_ref()),
            (Field::Source, self.source.as_ref()),
            (Field::Kind, self.kind.as_ref()),
            (Field::TemplateId, self.template_id.as_ref()),
            (Field::Fingerprint, self.fingerprint.as_ref()),
            (Field::EventId, self.event_id.as_ref()),
            (Field::ExceptionType, self.exception_type.as_ref()),
            (Field::ExceptionMessage, self.exception_message.as_ref()),
        ]
    }
}

impl TryFrom<MappingConfig> for Mapping {
    type Error = MappingError;

    fn try_from(config: MappingConfig) -> Result<Self, MappingError> {
        let mut pointers = Node::default();
        let mut constants = Vec::new();
        let mut insert = |key, pointer: &str, target| {
            pointers.insert(pointer, target).map_err(|reason| MappingError::Pointer {
                key,
                pointer: pointer.into(),
                reason,
            })
        };
        for (field, source) in config.sources() {
            match source {
                None => {}
                Some(Source::Pointer(pointer)) => insert(field.name(), pointer, Target::Field(field))?,
                Some(Source::Constant { constant }) => constants.push((field, checked_constant(field, constant)?)),
            }
        }
        if let Some(filter) = &config.filter {
            insert("filter.pointer", &filter.pointer, Target::Filter)?;
        }
        let telling = [&config.message, &config.exception_type, &config.exception_message, &config.fingerprint];
        if telling.iter().all(|source| source.is_none()) {
            return Err(MappingError::NoMessage);
        }
        Ok(Self {
            pointers,
            constants,
            time_format: config.time_format.as_deref().map(TimeFormat::new).transpose()?,
            zone: config.zone.as_deref().map(zone).transpose()?,
            filter: config.filter.as_ref().map(filter_texts).transpose()?,
            config,
        })
    }
}

impl From<Mapping> for MappingConfig {
    fn from(mapping: Mapping) -> Self {
        mapping.config
    }
}

fn checked_constant(field: Field, constant: &str) -> Result<String, MappingError> {
    let reason = match field {
        Field::Ts => "not every record happened at the same time; leave ts out to use the record time",
        Field::EventId => "records with the same event_id are one occurrence",
        Field::Fingerprint if Fingerprint::from_hex(constant).is_none() => "want 32 hex digits",
        Field::Tenant if constant.len() > TENANT_BYTES_MAX => "a tenant has at most 256 bytes",
        Field::Tenant if constant.contains('\0') => "a tenant has no NUL",
        _ => return Ok(constant.into()),
    };
    Err(MappingError::Constant { key: field.name(), constant: constant.into(), reason })
}

fn zone(name: &str) -> Result<Zone, MappingError> {
    Zone::get(name).map_err(|error| MappingError::Zone { name: name.into(), reason: error.to_string() })
}

fn filter_texts(filter: &FilterConfig) -> Result<Vec<String>, MappingError> {
    if filter.equals.is_empty() {
        return Err(MappingError::EmptyFilter);
    }
    let text = |value: &FilterValue| match value {
        FilterValue::Bool(value) => bool_text(*value).into(),
        FilterValue::Integer(value) => value.to_string(),
        FilterValue::Text(value) => value.clone(),
    };
    Ok(filter.equals.iter().map(text).collect())
}
