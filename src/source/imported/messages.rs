//! The messages of pprof's proto/profile.proto (github.com/google/pprof), with that file's field numbers.

use prost::Message;

/// Declares messages of a .proto file. Each field has its original type, its name and type here, and its number.
macro_rules! messages {
    ($file:literal, $($Name:ident { $([$($of:tt)+] $field:ident: $Type:ty = $number:literal;)+ })+) => {$(
        #[doc = concat!("`message ", stringify!($Name), "` of ", $file, ".")]
        #[derive(Clone, PartialEq, Message)]
        #[expect(missing_docs, reason = "the names of the .proto file")]
        pub struct $Name {
            $(#[prost($($of)+, tag = $number)]
            pub $field: $Type,)+
        }
    )+};
}
pub(crate) use messages;

messages! {
    "profile.proto",
    ValueType {
        [int64] kind: i64 = "1";
        [int64] unit: i64 = "2";
    }
    Label {
        [int64] key: i64 = "1";
        [int64] text: i64 = "2";
        [int64] number: i64 = "3";
    }
    Sample {
        [uint64, repeated] location: Vec<u64> = "1";
        [int64, repeated] value: Vec<i64> = "2";
        [message, repeated] label: Vec<Label> = "3";
    }
    Mapping {
        [uint64] id: u64 = "1";
        [uint64] start: u64 = "2";
        [uint64] limit: u64 = "3";
        [uint64] offset: u64 = "4";
        [int64] filename: i64 = "5";
        [int64] build_id: i64 = "6";
        [bool] has_functions: bool = "7";
    }
    Line {
        [uint64] function: u64 = "1";
        [int64] line: i64 = "2";
    }
    Location {
        [uint64] id: u64 = "1";
        [uint64] mapping: u64 = "2";
        [uint64] address: u64 = "3";
        [message, repeated] line: Vec<Line> = "4";
    }
    Function {
        [uint64] id: u64 = "1";
        [int64] name: i64 = "2";
        [int64] system_name: i64 = "3";
        [int64] filename: i64 = "4";
    }
    Profile {
        [message, repeated] sample_type: Vec<ValueType> = "1";
        [message, repeated] sample: Vec<Sample> = "2";
        [message, repeated] mapping: Vec<Mapping> = "3";
        [message, repeated] location: Vec<Location> = "4";
        [message, repeated] function: Vec<Function> = "5";
        [string, repeated] strings: Vec<String> = "6";
        [int64] time_nanos: i64 = "9";
        [int64] duration_nanos: i64 = "10";
        [message, optional] period_type: Option<ValueType> = "11";
        [int64] period: i64 = "12";
        [int64] default_sample_type: i64 = "14";
    }
}
