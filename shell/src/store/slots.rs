//! [`SlotMap`]: which server owns which slot. Parses redirects and `CLUSTER SLOTS`.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_core::partition::SLOTS;
use selvedge_core::value::Value;

use super::node::Node;
use super::url::Address;

/// The servers of a cluster and the slots they own, as far as known.
#[derive(Default)]
pub(super) struct SlotMap {
    nodes: BTreeMap<Address, Arc<Node>>,
    /// The owner of each slot; empty until the slots were read.
    owners: Vec<Option<Address>>,
}

impl SlotMap {
    pub(super) fn owner(&self, slot: u16) -> Option<Address> {
        self.owners.get(usize::from(slot)).cloned().flatten()
    }

    /// The lowest slot of each owner.
    pub(super) fn slot_per_owner(&self) -> BTreeMap<Address, u16> {
        let mut first = BTreeMap::new();
        for (owner, slot) in self.owners.iter().zip(0..) {
            if let Some(owner) = owner
                && !first.contains_key(owner)
            {
                first.insert(owner.clone(), slot);
            }
        }
        first
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.values().cloned().collect()
    }

    /// The server at this address; created if it is not known yet.
    pub(super) fn node(
        &mut self,
        address: Address,
        create: impl FnOnce(&Address) -> Arc<Node>,
    ) -> Arc<Node> {
        self.nodes.entry(address.clone()).or_insert_with(|| create(&address)).clone()
    }

    /// Replaces all owners. Servers that still own slots keep their connections.
    pub(super) fn replace_slots(
        &mut self,
        ranges: Vec<(u16, u16, Address)>,
        create: impl Fn(&Address) -> Arc<Node>,
    ) {
        let mut owners = vec![None; usize::from(SLOTS)];
        let mut nodes = BTreeMap::new();
        for (first, last, address) in ranges {
            let node = match self.nodes.get(&address) {
                Some(node) => node.clone(),
                None => nodes.get(&address).cloned().unwrap_or_else(|| create(&address)),
            };
            nodes.insert(address.clone(), node);
            for slot in first..=last {
                if let Some(owner) = owners.get_mut(usize::from(slot)) {
                    *owner = Some(address.clone());
                }
            }
        }
        (self.nodes, self.owners) = (nodes, owners);
    }

    /// Sets the owner of one slot.
    pub(super) fn set_owner(
        &mut self,
        slot: u16,
        owner: Address,
        create: impl FnOnce(&Address) -> Arc<Node>,
    ) {
        self.node(owner.clone(), create);
        if let Some(known) = self.owners.get_mut(usize::from(slot)) {
            *known = Some(owner);
        }
    }
}

/// A redirect: another server has the slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot has moved.
    Moved(u16, Address),
    /// The slot is being migrated; only this command goes to the other server.
    Ask(Address),
}

impl Redirect {
    /// Parses `MOVED 3999 127.0.0.1:6381` and `ASK 3999 127.0.0.1:6381`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (kind, slot, place) = (words.next()?, words.next()?, words.next()?);
        let (host, port) = place.rsplit_once(':')?;
        if host.is_empty() {
            return None;
        }
        let address = Address { host: host.to_owned(), port: port.parse().ok()? };
        match kind {
            "MOVED" => Some(Self::Moved(slot.parse().ok()?, address)),
            "ASK" => Some(Self::Ask(address)),
            _ => None,
        }
    }
}

/// Parses the reply to `CLUSTER SLOTS`: slot ranges and their primaries. A server that does not
/// know its own host name omits it; then it is the server that was asked.
pub(super) fn read_slots(reply: Value, asked: &Address) -> Option<Vec<(u16, u16, Address)>> {
    let Value::Array(ranges) = reply else { return None };
    ranges.into_iter().map(|range| read_range(&range, asked)).collect()
}

fn read_range(range: &Value, asked: &Address) -> Option<(u16, u16, Address)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &parts[..] else {
        return None;
    };
    let [host, Value::Int(port), ..] = &primary[..] else { return None };
    let host = match host {
        Value::Bulk(name) if name.is_empty() || name == b"?" => asked.host.clone(),
        Value::Bulk(name) => String::from_utf8(name.clone()).ok()?,
        Value::Nil => asked.host.clone(),
        Value::Int(_) | Value::Status(_) | Value::Error(_) | Value::Array(_) => return None,
    };
    let port = u16::try_from(*port).ok()?;
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, Address { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn redirects_are_parsed() {
        assert_eq!(
            Redirect::read("MOVED 3999 127.0.0.1:6381"),
            Some(Redirect::Moved(3999, address("127.0.0.1", 6381)))
        );
        assert_eq!(Redirect::read("ASK 1 ::1:7"), Some(Redirect::Ask(address("::1", 7))));
        for other in ["", "MOVED", "MOVED x 1:2", "ASK 1 host", "ERR no", "MOVED 1 :5"] {
            assert_eq!(Redirect::read(other), None, "{other}");
        }
    }

    #[test]
    fn slots_are_parsed_and_a_missing_host_is_the_server_asked() {
        let server = |name: Value| Value::Array(vec![name, Value::Int(7001), Value::Nil]);
        let range = |first, last, name| {
            Value::Array(vec![Value::Int(first), Value::Int(last), server(name)])
        };
        let asked = address("seed", 1);
        let reply = Value::Array(vec![
            range(0, 9, Value::Bulk(b"10.0.0.1".to_vec())),
            range(10, 16_383, Value::Nil),
        ]);
        assert_eq!(
            read_slots(reply, &asked),
            Some(vec![(0, 9, address("10.0.0.1", 7001)), (10, 16_383, address("seed", 7001))])
        );
        assert_eq!(read_slots(Value::Nil, &asked), None);
        assert_eq!(read_slots(Value::Array(vec![Value::Int(1)]), &asked), None);
    }
}
