//! Topic ids: the one question that the `rdkafka` crate has no safe call for, and so the one `unsafe` of this crate.
//!
//! Every object that librdkafka hands out is owned by a [`Handle`], which destroys it; what lies inside the answer
//! is only borrowed while the answer lives.

#![allow(unsafe_code)]

use crate::context::Context;
use floodmark_model::TopicId;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka_sys as native;
use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;
use std::time::Duration;

/// Why there is no description.
pub(super) struct DescribeFailed {
    pub(super) code: RDKafkaErrorCode,
    pub(super) detail: String,
}

type Described = (TopicId, Vec<bool>);

/// A native object, destroyed when it goes out of scope.
struct Handle<T> {
    object: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    /// Takes over `object`, which `destroy` frees; fails on null.
    ///
    /// # Safety
    /// `object` is null, or valid and owned by nobody else, and `destroy` is its destructor.
    unsafe fn own(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Result<Self, DescribeFailed> {
        let object = NonNull::new(object).ok_or_else(|| DescribeFailed {
            code: RDKafkaErrorCode::OperationTimedOut,
            detail: "librdkafka gave no answer".into(),
        })?;
        Ok(Self { object, destroy })
    }

    fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: `own` promises that the object is valid, not shared, and that this is its destructor; a handle is
        // neither copied nor cloned, so it runs once.
        unsafe { (self.destroy)(self.object.as_ptr()) }
    }
}

/// Asks for the id of `topic` and which of its partitions have a leader, and waits up to `timeout`.
pub(super) fn describe(
    client: &BaseConsumer<Context>,
    topic: &str,
    timeout: Duration,
) -> Result<Described, DescribeFailed> {
    let name = CString::new(topic)
        .map_err(|_| DescribeFailed { code: RDKafkaErrorCode::InvalidTopic, detail: "the name holds a NUL".into() })?;
    let answer = ask(client, &name, i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX))?;
    read(&answer)
}

/// Sends the request and waits for its answer, which is a `DescribeTopics` result without an error.
fn ask(
    client: &BaseConsumer<Context>,
    topic: &CStr,
    timeout_ms: i32,
) -> Result<Handle<native::rd_kafka_event_t>, DescribeFailed> {
    let kafka = client.client().native_ptr();
    let mut names: [*const c_char; 1] = [topic.as_ptr()];

    // SAFETY: `kafka` is valid as long as `client` is borrowed, that is during this call. `names` is an array of one
    // NUL-terminated string; the collection copies it, though its binding says `*mut`. Each object comes with its
    // own destructor.
    let (queue, options, topics) = unsafe {
        (
            Handle::own(native::rd_kafka_queue_new(kafka), native::rd_kafka_queue_destroy)?,
            Handle::own(
                native::rd_kafka_AdminOptions_new(kafka, native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS),
                native::rd_kafka_AdminOptions_destroy,
            )?,
            Handle::own(
                native::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()),
                native::rd_kafka_TopicCollection_destroy,
            )?,
        )
    };

    // SAFETY: all handles are alive. The request copies options and topics and keeps its own reference to the queue,
    // so that an answer which comes after the time-out is freed by librdkafka. No error text is asked for: a null
    // buffer of length 0 is allowed. Whoever polls an event owns it.
    let answer = unsafe {
        native::rd_kafka_AdminOptions_set_request_timeout(options.as_ptr(), timeout_ms, std::ptr::null_mut(), 0);
        native::rd_kafka_DescribeTopics(kafka, topics.as_ptr(), options.as_ptr(), queue.as_ptr());
        // The request itself times out first and says why.
        let patience_ms = timeout_ms.saturating_add(1_000);
        Handle::own(native::rd_kafka_queue_poll(queue.as_ptr(), patience_ms), native::rd_kafka_event_destroy)?
    };

    // SAFETY: the event is alive; its error text belongs to it and is copied at once.
    unsafe {
        let code = native::rd_kafka_event_error(answer.as_ptr());
        if code != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(failed(code, native::rd_kafka_event_error_string(answer.as_ptr())));
        }
    }
    Ok(answer)
}

/// Reads the description of the one topic that was asked for.
fn read(answer: &Handle<native::rd_kafka_event_t>) -> Result<Described, DescribeFailed> {
    // SAFETY: everything read here is borrowed from `answer`, which outlives this function. The casting call returns
    // null for another type of event, which is checked. Arrays come with their length and are null only when empty.
    unsafe {
        let result = native::rd_kafka_event_DescribeTopics_result(answer.as_ptr());
        if result.is_null() {
            return Err(unexpected("another event than a description"));
        }
        let mut count = 0;
        let topics = native::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if count != 1 || topics.is_null() {
            return Err(unexpected("not exactly one description"));
        }
        let topic = *topics;
        let error = native::rd_kafka_TopicDescription_error(topic);
        let code = native::rd_kafka_error_code(error);
        if code != native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(failed(code, native::rd_kafka_error_string(error)));
        }
        let id = native::rd_kafka_TopicDescription_topic_id(topic);
        if id.is_null() {
            return Err(unexpected("a description without an id"));
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&native::rd_kafka_Uuid_most_significant_bits(id).to_be_bytes());
        bytes[8..].copy_from_slice(&native::rd_kafka_Uuid_least_significant_bits(id).to_be_bytes());
        Ok((TopicId(bytes), leaders(topic)?))
    }
}

/// Which partitions have a leader, in the order of their numbers.
///
/// # Safety
/// `topic` is valid during the call.
unsafe fn leaders(topic: *const native::rd_kafka_TopicDescription_t) -> Result<Vec<bool>, DescribeFailed> {
    let mut count = 0;
    // SAFETY: `topic` is valid, and so is what is read from it: `count` partitions, each with a leader that may be
    // null, or a node with a negative number when there is none.
    unsafe {
        let partitions = native::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
        let mut leaders = vec![None; count];
        for index in 0..count {
            let partition = *partitions.add(index);
            let number = native::rd_kafka_TopicPartitionInfo_partition(partition);
            let leader = native::rd_kafka_TopicPartitionInfo_leader(partition);
            let has_leader = !leader.is_null() && native::rd_kafka_Node_id(leader) >= 0;
            let slot = usize::try_from(number).ok().and_then(|number| leaders.get_mut(number));
            *slot.ok_or_else(|| unexpected("partitions that are not numbered from 0"))? = Some(has_leader);
        }
        leaders.into_iter().collect::<Option<_>>().ok_or_else(|| unexpected("a partition twice"))
    }
}

/// The failure that librdkafka reports.
///
/// # Safety
/// `detail` is null or a NUL-terminated string that is valid during the call.
unsafe fn failed(code: native::rd_kafka_resp_err_t, detail: *const c_char) -> DescribeFailed {
    // SAFETY: as promised by the caller.
    let detail = (!detail.is_null()).then(|| unsafe { CStr::from_ptr(detail) }.to_string_lossy().into_owned());
    DescribeFailed { code: code.into(), detail: detail.unwrap_or_default() }
}

fn unexpected(what: &str) -> DescribeFailed {
    DescribeFailed { code: RDKafkaErrorCode::Fail, detail: format!("librdkafka returned {what}") }
}
