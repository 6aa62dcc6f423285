//! The survey after a gap in the pushes, and the slow poll in case a push was lost.

use super::claiming::Claiming;
use super::io::{Alarm, Continuation, Io};
use super::observe::Observation;
use crate::command::{Command, Reply};
use crate::key::{Key, LaneIndex};
use crate::partition::Partition;
use crate::value::Value;

impl Claiming {
    /// Pushes may have been missed: reads the sizes of all indexes of ready executions. Claims
    /// would find the same, but each needs a permit, so the last target would wait for all others.
    pub(super) fn survey(&mut self, io: &mut Io) {
        if self.draining {
            return;
        }
        if self.surveys > 0 {
            self.survey_again = true;
            return;
        }
        io.observe(Observation::Surveyed);
        for index in 0..self.config.partitions.flow.get() {
            let partition = Partition::flow(index);
            let counts = self.config.lanes.iter().map(|lane| {
                Command::read("ZCARD", &Key::index(partition).lane(lane, LaneIndex::Eligible), &[])
            });
            self.surveys += 1;
            io.request_in_background(counts.collect(), Continuation::Survey(partition));
        }
    }

    pub(super) fn on_survey(&mut self, io: &mut Io, partition: Partition, replies: &[Reply]) {
        self.surveys = self.surveys.saturating_sub(1);
        for (lane, reply) in self.config.clone().lanes.iter().zip(replies) {
            // No answer counts as ready: the claim is repeated with backoff.
            if *reply != Ok(Value::Int(0)) {
                self.mark_ready(lane.clone(), partition);
            }
        }
        if self.surveys == 0 && core::mem::take(&mut self.survey_again) {
            self.survey(io);
        }
    }

    pub(super) fn poll(&mut self, io: &mut Io) {
        if !self.draining {
            self.queue.poll_next_target();
            io.set(Alarm::Poll, io.now.after(self.config.poll_every));
        }
    }
}
