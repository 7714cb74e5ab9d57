//! The way to ask: a judge's questions leave on a channel, and their answers come back to it (design, decision 4).
//!
//! A question is no part of the stream: the judge itself keeps the epochs open for which it waits, and two questions of
//! a worker are under way at most.

use crate::message::{Answer, Question};
use crate::wake::Waker;
use crossbeam_channel::{Receiver, Sender, unbounded};

/// Questions of one worker that are under way, at most: one about keys and one about a window.
pub const QUESTIONS_MAX: usize = 2;

/// A question on its way to the occurrence store.
#[derive(Debug)]
pub struct Asking {
    /// What is asked.
    pub question: Question,
    /// Where the answer goes.
    pub reply: Reply,
}

/// Takes one answer back. Dropping it unanswered answers nothing: what waits for it stays open.
#[derive(Debug)]
pub struct Reply {
    answers: Sender<Answer>,
    waker: Waker,
}

impl Reply {
    /// Hands the answer to the judge that asked.
    pub fn answer(self, answer: Answer) {
        // The receiver is gone when the worker has stopped; nobody waits then.
        let _ = self.answers.send(answer);
        self.waker.wake();
    }
}

/// The judge's end.
pub(crate) struct Questions {
    out: Sender<Asking>,
    waker: Waker,
    answers: (Sender<Answer>, Receiver<Answer>),
}

impl Questions {
    /// Questions leave on `out`, and an answer wakes `waker`.
    pub(crate) fn new(out: Sender<Asking>, waker: Waker) -> Self {
        Self { out, waker, answers: unbounded() }
    }

    pub(crate) fn ask(&self, question: Question) {
        let reply = Reply { answers: self.answers.0.clone(), waker: self.waker.clone() };
        // Without anybody to answer, what waits stays open, as for any store that is away.
        let _ = self.out.send(Asking { question, reply });
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = Answer> {
        self.answers.1.try_iter()
    }
}
