//! Arguments as bytes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::id::{
    AttemptId, AttemptIndex, BudgetId, EdgeId, ExecutionId, FlowId, LaneId, LeaseEpoch, LeaseId,
    Namespace, QuotaPolicyId, SignalId, SuspensionId, WaitpointId, WaitpointKey, WorkerId,
    WorkerInstanceId,
};
use crate::time::ServerTime;
use crate::work_filter::WorkFilter;

/// Something that can stand in ARGV.
pub trait ToArg {
    /// Its bytes on the wire.
    fn to_arg(&self) -> Vec<u8>;
}

macro_rules! args_by_display {
    ($($kind:ty),+ $(,)?) => {$(
        impl ToArg for $kind {
            fn to_arg(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        }
    )+};
}

args_by_display!(
    u16,
    u32,
    u64,
    i64,
    usize,
    String,
    str,
    AttemptId,
    AttemptIndex,
    BudgetId,
    EdgeId,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseEpoch,
    LeaseId,
    Namespace,
    QuotaPolicyId,
    ServerTime,
    SignalId,
    SuspensionId,
    WaitpointId,
    WaitpointKey,
    WorkFilter,
    WorkerId,
    WorkerInstanceId,
);

impl ToArg for Vec<u8> {
    fn to_arg(&self) -> Vec<u8> {
        self.clone()
    }
}

impl ToArg for [u8] {
    fn to_arg(&self) -> Vec<u8> {
        self.to_vec()
    }
}

/// Absent stands as empty text: the contract reads both alike.
impl<T: ToArg> ToArg for Option<T> {
    fn to_arg(&self) -> Vec<u8> {
        self.as_ref().map(ToArg::to_arg).unwrap_or_default()
    }
}

impl<T: ToArg + ?Sized> ToArg for &T {
    fn to_arg(&self) -> Vec<u8> {
        (*self).to_arg()
    }
}

/// ARGV from a list of things of any kind.
macro_rules! args {
    ($($arg:expr),* $(,)?) => {
        alloc::vec![$( $crate::call::ToArg::to_arg(&$arg) ),*]
    };
}
pub(crate) use args;
