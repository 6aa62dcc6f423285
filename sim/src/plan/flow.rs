//! The flows of a plan.
//!
//! ```text
//! F1 chain 4
//! F2 fan_in 20 any_of cancel_remaining
//! F3 in fp:2 chunk 5 fan_out 12
//! F4 : a, b, c <- a b quorum 1 let_run, d <- c
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::policy::Policy;
use super::step::{once, read_number, read_partition};
use super::tokens::Tokens;

/// The most members of a flow.
pub const MEMBERS_MAX: usize = 5_000;

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Its name.
    pub name: String,
    /// The flow partition; derived from the name if not given.
    pub partition: Option<u16>,
    /// Members per call of a submission; all in one call if not given.
    pub chunk: Option<u64>,
    /// The policy of its members.
    pub policy: Policy,
    /// The graph of its members.
    pub shape: Shape,
}

/// The graph of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One after the other.
    Chain(usize),
    /// Some members, and one that depends on all of them.
    FanIn(usize, Group),
    /// One member, and some that depend on it.
    FanOut(usize),
    /// One member, some that depend on it, and one that depends on all of those.
    Diamond(usize, Group),
    /// Members by name, with their dependencies.
    Graph(Vec<Member>),
}

/// A member with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name within the flow.
    pub name: String,
    /// The names of the members that it depends on.
    pub after: Vec<String>,
    /// How many of those must succeed.
    pub group: Group,
}

/// How many upstreams of a member must succeed, and what happens to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// All of them.
    All,
    /// Any one.
    AnyOf {
        /// Whether the others are cancelled then.
        cancel_remaining: bool,
    },
    /// This many.
    Quorum {
        /// How many.
        of: u32,
        /// Whether the others are cancelled then.
        cancel_remaining: bool,
    },
}

impl FlowSpec {
    /// A flow with defaults.
    #[must_use]
    pub const fn new(name: String, shape: Shape) -> Self {
        Self { name, partition: None, chunk: None, policy: Policy::Plain, shape }
    }

    /// The members in order, each with the positions of those that it depends on, which all come
    /// earlier.
    #[must_use]
    pub fn members(&self) -> Vec<(String, Vec<usize>, Group)> {
        let plain = |place: usize, after: Vec<usize>| (place.to_string(), after, Group::All);
        match &self.shape {
            Shape::Chain(count) => {
                (0..*count).map(|at| plain(at, at.checked_sub(1).into_iter().collect())).collect()
            }
            Shape::FanIn(count, group) => {
                let mut members: Vec<_> = (0..*count).map(|at| plain(at, Vec::new())).collect();
                members.push((count.to_string(), (0..*count).collect(), *group));
                members
            }
            Shape::FanOut(count) => {
                (0..=*count).map(|at| plain(at, (0..1.min(at)).collect())).collect()
            }
            Shape::Diamond(count, group) => {
                let mut members: Vec<_> =
                    (0..=*count).map(|at| plain(at, (0..1.min(at)).collect())).collect();
                members.push(((count + 1).to_string(), (1..=*count).collect(), *group));
                members
            }
            Shape::Graph(members) => {
                let places: BTreeMap<&str, usize> =
                    members.iter().enumerate().map(|(at, m)| (m.name.as_str(), at)).collect();
                let place = |name: &String| places.get(name.as_str()).copied();
                members
                    .iter()
                    .map(|member| {
                        let after = member.after.iter().filter_map(place).collect();
                        (member.name.clone(), after, member.group)
                    })
                    .collect()
            }
        }
    }

    pub(super) fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let name = tokens.want("the name of the flow")?.to_owned();
        let (mut partition, mut chunk, mut policy) = (None, None, Policy::Plain);
        let mut said = BTreeSet::new();
        loop {
            let word = tokens.want("the shape of the flow")?;
            once(!said.insert(word), word)?;
            let count = |tokens: &mut Tokens<'_>| {
                let count = read_number::<usize>(tokens.want("how many")?)?;
                if count == 0 || count > MEMBERS_MAX {
                    return Err(format!("a flow has 1 to {MEMBERS_MAX} members, not {count}"));
                }
                Ok(count)
            };
            let shape = match word {
                "in" => {
                    partition = Some(read_partition(tokens.want("a partition")?)?);
                    continue;
                }
                "chunk" => {
                    chunk = Some(read_number(tokens.want("a number")?)?);
                    if chunk == Some(0) {
                        return Err("a chunk has at least 1 member, not 0".to_owned());
                    }
                    continue;
                }
                "policy" => {
                    policy = tokens.want("a policy")?.parse()?;
                    continue;
                }
                "chain" => Shape::Chain(count(tokens)?),
                "fan_in" => Shape::FanIn(count(tokens)?, Group::read(tokens)?),
                "fan_out" => Shape::FanOut(count(tokens)?),
                "diamond" => Shape::Diamond(count(tokens)?, Group::read(tokens)?),
                ":" => read_graph(tokens)?,
                other => {
                    return Err(format!(
                        "`{other}`: expected in, chunk, policy, chain, fan_in, fan_out, diamond or `:`"
                    ));
                }
            };
            return Ok(Self { name, partition, chunk, policy, shape });
        }
    }
}

impl Group {
    fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let quorum = match tokens.peek() {
            Some("any_of") => None,
            Some("quorum") => Some(()),
            _ => {
                tokens.take("all_of");
                return Ok(Self::All);
            }
        };
        tokens.next();
        let of = match quorum {
            Some(()) => Some(read_number(tokens.want("how many")?)?),
            None => None,
        };
        let cancel_remaining = match tokens.peek() {
            Some("cancel_remaining") => tokens.next().is_some(),
            Some("let_run") => tokens.next().is_none(),
            _ => true,
        };
        Ok(match of {
            Some(of) => Self::Quorum { of, cancel_remaining },
            None => Self::AnyOf { cancel_remaining },
        })
    }
}

fn read_graph(tokens: &mut Tokens<'_>) -> Result<Shape, String> {
    let text = tokens.rest().join(" ");
    let mut members: Vec<Member> = Vec::new();
    for part in text.split(',') {
        let mut tokens = Tokens::of(part);
        let name = tokens.want("the name of a member")?.to_owned();
        if members.iter().any(|member| member.name == name) {
            return Err(format!("there are two members named `{name}`"));
        }
        let (mut after, mut group) = (Vec::new(), Group::All);
        if tokens.take("<-") {
            while let Some(word) = tokens.peek() {
                if matches!(word, "any_of" | "quorum" | "all_of") {
                    group = Group::read(&mut tokens)?;
                    break;
                }
                if after.iter().any(|known| known == word) {
                    return Err(format!("`{name}` depends on `{word}` twice"));
                }
                if !members.iter().any(|member| member.name == word) {
                    return Err(format!(
                        "`{name}` depends on `{word}`, which is not named before it"
                    ));
                }
                after.push(word.to_owned());
                tokens.next();
            }
            if after.is_empty() {
                return Err(format!("`{name}` has an arrow but no dependency"));
            }
        }
        tokens.end()?;
        if let Group::Quorum { of, .. } = group
            && (of == 0 || of as usize > after.len())
        {
            let count = after.len();
            return Err(format!(
                "`{name}` has a quorum of {of} out of {count}, which can never be met"
            ));
        }
        members.push(Member { name, after, group });
    }
    Ok(Shape::Graph(members))
}

impl fmt::Display for FlowSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(partition) = self.partition {
            write!(f, " in fp:{partition}")?;
        }
        if let Some(chunk) = self.chunk {
            write!(f, " chunk {chunk}")?;
        }
        if self.policy != Policy::Plain {
            write!(f, " policy {}", self.policy)?;
        }
        match &self.shape {
            Shape::Chain(count) => write!(f, " chain {count}"),
            Shape::FanIn(count, group) => write!(f, " fan_in {count}{group}"),
            Shape::FanOut(count) => write!(f, " fan_out {count}"),
            Shape::Diamond(count, group) => write!(f, " diamond {count}{group}"),
            Shape::Graph(members) => {
                for (at, member) in members.iter().enumerate() {
                    write!(f, "{} {}", if at == 0 { " :" } else { "," }, member.name)?;
                    if !member.after.is_empty() {
                        write!(f, " <- {}{}", member.after.join(" "), member.group)?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = |cancel: bool| if cancel { "cancel_remaining" } else { "let_run" };
        match *self {
            Self::All => Ok(()),
            Self::AnyOf { cancel_remaining } => write!(f, " any_of {}", rest(cancel_remaining)),
            Self::Quorum { of, cancel_remaining } => {
                write!(f, " quorum {of} {}", rest(cancel_remaining))
            }
        }
    }
}
