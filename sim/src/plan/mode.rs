//! [`Mode`]: which kind of plans seeds generate.

use super::{Plan, Seed, lite_plan_from_seed, plan_from_seed};

/// Which kind of plans seeds generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Any plan, with all kinds of faults.
    Swarm,
    /// Small plans in which only engines crash: quick, for use while editing.
    Lite,
}

impl Mode {
    /// The command line flag that selects this mode.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Swarm => "",
            Self::Lite => " --lite",
        }
    }

    /// The command that runs a seed again.
    #[must_use]
    pub fn replay(self, seed: Seed) -> String {
        format!("cargo sim replay {seed}{}", self.flag())
    }

    /// The plan that a seed generates.
    #[must_use]
    pub fn plan(self, seed: Seed) -> Plan {
        match self {
            Self::Swarm => plan_from_seed(seed),
            Self::Lite => lite_plan_from_seed(seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replay_command_has_the_mode() {
        assert_eq!(Mode::Lite.replay(Seed::from(7)), "cargo sim replay 7 --lite");
        assert_eq!(Mode::Swarm.replay(Seed::from(7)), "cargo sim replay 7");
    }
}
