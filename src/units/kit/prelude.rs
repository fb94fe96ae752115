//! The names that most units use.

pub(crate) use super::field::{Num, Text};
pub(crate) use super::figures::latency;
pub(crate) use super::options::select;
pub(crate) use super::options::select::SelectedEvent;
pub(crate) use super::tables::columns::{
    all_notes, by_weight, bytes, count, id, left, named, note, right, share, text, time,
};
pub(crate) use super::{
    BoundExpr, ByContainer, CaseDetail, Context, EventRequest, Finding, Grid, InitiallyBlocked, KernelFunctionNames,
    KeyNames, LostEvents, Moment, RowKey, Sees, Settings, Sheet, Slowest, Spec, StackLabels, Stats, ThreadKey, TopN,
    Unit, UnitEvent, UnitSample,
};
pub(crate) use crate::event::Rate;
pub(crate) use crate::panel::{Align, Body, Cell, Column, Measure, Panel};
pub(crate) use crate::profile::RetainedStack;
pub(crate) use crate::record::open_spans::{OpenSpan, OpenSpans, ThreadChange};
pub(crate) use crate::session::SleepingStack;
