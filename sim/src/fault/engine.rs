//! Faults of engines: pauses, clock skew, additional engines, filters, stops and lost pushes.

use selvedge_core::engine::Input;

use super::Fault;
use super::timed::{DURATION_MS, FaultEnd};
use crate::actor::tenant;
use crate::event::Actor;
use crate::plan::FaultRule;
use crate::world::engines::EngineProcess;
use crate::world::random_streams::Purpose;
use crate::world::{Scheduled, World};

/// The most engines in a run.
const ENGINES_MAX: usize = 14;

impl World {
    fn engine_of(&mut self, rule: &FaultRule) -> u8 {
        match rule.to {
            Some(Actor::Engine(number)) if usize::from(number) <= self.engine_processes.len() => {
                number
            }
            _ => {
                let engine_processes = self.engine_processes.len() as u64;
                let drawn = self.random(Purpose::Faults, Actor::World).below(engine_processes);
                u8::try_from(drawn + 1).unwrap_or(1)
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults are injected elsewhere")]
    pub(super) fn inject_engine_fault(&mut self, rule: &FaultRule) {
        let duration_ms = self.duration_ms(rule);
        let positive = rule.amount.and_then(|amount| u64::try_from(amount).ok());
        match rule.fault {
            Fault::EnginePause => {
                let engine = self.engine_of(rule);
                let until = self.now_ms + duration_ms;
                self.record_fault(rule.fault, format!("engine-{engine} for {duration_ms} ms"));
                if let Some(engine_process) = self.engine_process(engine) {
                    engine_process.frozen_until = until;
                }
            }
            Fault::EngineClockSkew => {
                let engine = self.engine_of(rule);
                let ms = rule.amount.unwrap_or(5_000);
                self.record_fault(rule.fault, format!("engine-{engine} by {ms} ms"));
                if let Some(engine_process) = self.engine_process(engine) {
                    engine_process.skew_ms += ms;
                }
                // The clock of a running process never steps back, so the engine is restarted.
                if ms < 0 {
                    self.kill_engine(engine, 10);
                }
            }
            Fault::ScannerOverlap if self.engine_processes.len() > 1 => {
                self.record_fault(rule.fault, "all engines");
                // With the same seed all engines scan at the same times.
                let seed = self.random(Purpose::Faults, Actor::World).bits();
                for engine in 1..=u8::try_from(self.engine_processes.len()).unwrap_or(u8::MAX) {
                    self.kill_engine(engine, DURATION_MS);
                    self.start_engine_seeded(engine, seed);
                }
            }
            Fault::FilteredEngine => {
                let engine = self.engine_of(rule);
                self.record_fault(rule.fault, format!("engine-{engine}"));
                self.filter_engine(engine, duration_ms);
            }
            Fault::EngineFlood => {
                let room = ENGINES_MAX.saturating_sub(self.engine_processes.len()) as u64;
                let more = positive.unwrap_or(3).min(room);
                self.record_fault(rule.fault, format!("{more} engines more"));
                self.add_engines(more, duration_ms);
            }
            Fault::StopMidScan => {
                let engine = self.engine_of(rule);
                self.record_fault(rule.fault, format!("engine-{engine}"));
                self.engine_input(engine, None, Input::Drain);
                let end = self.now_ms + duration_ms;
                self.schedule(end, Scheduled::FaultEnd(FaultEnd::Stop(engine)));
            }
            Fault::WakeupLost => {
                let engine = self.engine_of(rule);
                let until = self.now_ms + duration_ms;
                self.record_fault(rule.fault, format!("engine-{engine} for {duration_ms} ms"));
                if let Some(engine_process) = self.engine_process(engine) {
                    engine_process.unpushed_until = until;
                }
                self.schedule(until, Scheduled::FaultEnd(FaultEnd::Pushes(engine)));
            }
            _ => {}
        }
    }

    /// Leaves one engine running, which looks after one namespace only.
    fn filter_engine(&mut self, engine: u8, duration_ms: u64) {
        for other in 1..=u8::try_from(self.engine_processes.len()).unwrap_or(u8::MAX) {
            self.kill_engine(other, duration_ms);
        }
        if let Some(engine_process) = self.engine_process(engine) {
            engine_process.config.filter.namespace = Some(tenant(0).to_string());
        }
        self.start_engine(engine);
        let end = self.now_ms + duration_ms;
        self.schedule(end, Scheduled::FaultEnd(FaultEnd::Filter(engine)));
    }

    fn add_engines(&mut self, count: u64, duration_ms: u64) {
        for _ in 0..count {
            self.engine_processes.push(EngineProcess::new(&self.plan.config));
            let engine = u8::try_from(self.engine_processes.len()).unwrap_or(u8::MAX);
            self.start_engine(engine);
            let end = self.now_ms + duration_ms;
            self.schedule(end, Scheduled::FaultEnd(FaultEnd::Flood(engine)));
        }
    }
}
