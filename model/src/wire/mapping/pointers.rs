//! JSON pointers (RFC 6901), all followed in one pass over a record.

use super::super::Rejected;
use super::super::fields::{Field, FoundFields, duplicate_key};
use super::super::json::reader::{Reader, Value};

/// Steps that a pointer may have.
pub(super) const STEPS_MAX: usize = 16;

/// Where a found value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Field(Field),
    Filter,
}

/// What was found in a record.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) fields: FoundFields<'a>,
    pub(super) filter: Option<Value<'a>>,
}

/// The pointers as a tree: pointers that begin alike share their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    targets: Vec<Target>,
    /// By the step that leads there; at most one a target, so a bit set of them fits 64 bits.
    children: Vec<(Step, Node)>,
}

/// One step of a pointer: a key of an object, or the index of an array if it is written as one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    key: String,
    index: Option<usize>,
}

impl Node {
    /// Adds a pointer. The error says what is wrong with it.
    pub(super) fn insert(&mut self, pointer: &str, target: Target) -> Result<(), &'static str> {
        let steps = parse(pointer)?;
        let mut node = self;
        for step in steps {
            let position = node.children.iter().position(|(known, _)| *known == step).unwrap_or_else(|| {
                node.children.push((step, Self::default()));
                node.children.len() - 1
            });
            node = &mut node.children[position].1;
        }
        node.targets.push(target);
        Ok(())
    }

    /// Follows all pointers through the record, which has to be one object, to its end.
    pub(super) fn find<'a>(&self, reader: &mut Reader<'a>, found: &mut Found<'a>) -> Result<(), Box<Rejected>> {
        reader.open_record()?;
        self.find_in_object(reader, found)?;
        reader.end()
    }

    fn find_in_object<'a>(&self, reader: &mut Reader<'a>, found: &mut Found<'a>) -> Result<(), Box<Rejected>> {
        let mut seen = 0_u64;
        while let Some(key) = reader.next_key()? {
            let key = key.unescape()?;
            let Some(position) = self.children.iter().position(|(step, _)| step.key == *key) else {
                reader.skip_value()?;
                continue;
            };
            if seen & (1 << position) != 0 {
                return Err(duplicate_key(&self.children[position].0.key));
            }
            seen |= 1 << position;
            self.children[position].1.find_in_value(reader, found)?;
        }
        Ok(())
    }

    fn find_in_array<'a>(&self, reader: &mut Reader<'a>, found: &mut Found<'a>) -> Result<(), Box<Rejected>> {
        let mut index = 0;
        while reader.next_item()? {
            match self.children.iter().find(|(step, _)| step.index == Some(index)) {
                Some((_, node)) => node.find_in_value(reader, found)?,
                None => reader.skip_value()?,
            }
            index += 1;
        }
        Ok(())
    }

    fn find_in_value<'a>(&self, reader: &mut Reader<'a>, found: &mut Found<'a>) -> Result<(), Box<Rejected>> {
        let start = reader.position();
        let value = if self.children.is_empty() || !(reader.at_object() || reader.at_array()) {
            reader.value()?
        } else {
            if reader.at_object() {
                reader.open_object()?;
                self.find_in_object(reader, found)?;
            } else {
                reader.open_array()?;
                self.find_in_array(reader, found)?;
            }
            Value::Composite(reader.since(start))
        };
        for target in &self.targets {
            match target {
                Target::Field(field) => found.fields.put(*field, value.clone())?,
                Target::Filter => found.filter = Some(value.clone()),
            }
        }
        Ok(())
    }
}

fn parse(pointer: &str) -> Result<Vec<Step>, &'static str> {
    let Some(steps) = pointer.strip_prefix('/') else {
        return Err("a JSON pointer begins with a slash");
    };
    let steps: Vec<Step> = steps.split('/').map(step).collect::<Result<_, _>>()?;
    if steps.len() > STEPS_MAX {
        return Err("a JSON pointer has at most 16 steps here");
    }
    Ok(steps)
}

fn step(text: &str) -> Result<Step, &'static str> {
    let mut key = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        key.push(match character {
            '~' => match rest.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err("in a JSON pointer ~ is written ~0 and a slash within a key ~1"),
            },
            other => other,
        });
    }
    // "01" is a key, but no index.
    let index = key.parse().ok().filter(|index: &usize| index.to_string() == key);
    Ok(Step { key, index })
}
