//! A procedure of the client, whatever it returns.

use selvedge_core::client::{Effect, Failure, Input, Machine, Procedure, Settings};
use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::time::LocalTime;

/// What a procedure returned, as far as the simulation looks at it.
pub(crate) enum Ended {
    /// It is done.
    Done,
    /// A wait noticed these ends.
    Waited(Vec<(ExecutionId, TerminalOutcome)>),
}

/// A machine of the client.
pub(crate) trait ClientMachine {
    fn handle(&mut self, now: LocalTime, input: Input);
    fn next_effect(&mut self) -> Option<Effect>;
    fn deadline(&self) -> Option<LocalTime>;
    fn take_result(&mut self) -> Option<Result<Ended, Failure>>;
}

struct Mapped<P: Procedure> {
    machine: Machine<P>,
    end: fn(P::Output) -> Ended,
}

/// The machine of a procedure.
pub(crate) fn boxed<P: Procedure + 'static>(
    procedure: P,
    settings: Settings,
    seed: u64,
    end: fn(P::Output) -> Ended,
) -> Box<dyn ClientMachine> {
    Box::new(Mapped { machine: Machine::new(procedure, settings, seed), end })
}

impl<P: Procedure> ClientMachine for Mapped<P> {
    fn handle(&mut self, now: LocalTime, input: Input) {
        self.machine.handle(now, input);
    }

    fn next_effect(&mut self) -> Option<Effect> {
        self.machine.next_effect()
    }

    fn deadline(&self) -> Option<LocalTime> {
        self.machine.deadline()
    }

    fn take_result(&mut self) -> Option<Result<Ended, Failure>> {
        Some(self.machine.take_result()?.map(self.end))
    }
}
