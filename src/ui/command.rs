//! Every command, once: its name, keys, argument and meaning. The keymap, the palette, the help,
//! the README's table and `--exec` are all made from [`TABLE`].

use crate::event::fault::nearest;
use crate::query::Key;

/// What the user can ask of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Quit,
    Help,
    Palette,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Toggle,
    ExpandRow,
    ExpandAll,
    Search(Option<String>),
    NextMatch,
    PreviousMatch,
    Filter(Option<String>),
    Fold,
    ZoomCpu(Option<String>),
    /// Only what shares the row's value in a column, or all but that.
    Zoom(Key),
    LeaveOut(Key),
    ZoomKernel,
    ExcludeKernel,
    ShowIdle,
    Columns,
    Sort(Option<String>),
    OrderRight,
    OrderLeft,
    Reverse,
    Children,
    Direction,
    Fractal,
    Limit(Option<String>),
    Freeze,
    Reset,
    Forget,
    Faster,
    Slower,
    Refresh(Option<String>),
    Frequency(Option<String>),
    Capture(Option<String>),
    Cpus(Option<String>),
    Dismiss,
    NextEvent,
    PreviousEvent,
    Save(Option<String>),
    Losses,
    Info,
    Leave,
    StopLoading,
    Split,
    SplitBack,
    TabTop,
    TabFlame,
    FlameLeft,
    FlameRight,
    FlameZoom,
    FlameTasks,
    Flip,
    Leaves,
    Around(Option<String>),
    MarkAll,
    Focus(Option<String>),
    Drop(Option<String>),
    Merge(Option<String>),
    MergeDso(Option<String>),
    Recursion,
    ByDso,
    Undo,
    Redo,
    Copy,
    Baseline(Option<String>),
    BaselineOff,
    Per(Option<String>),
    Window(Option<String>),
    Annotate(Option<String>),
    NameForm,
    Inlined,
    CallGraph(Option<String>),
    Chains,
    OffCpu,
    TabCpus,
    CpuLeft,
    CpuRight,
    CpuEnter,
    CpuPage,
    CpuOrder,
    CpuCapture,
    SoftirqTime,
    TabEvents,
    TabTime,
    TimeLeft,
    TimeRight,
    TimeSelect,
    TimeColumns,
    TimeEnter,
    TimeBaseline,
    TimeRows(Option<String>),
    TimeScale,
    TimeIn,
    TimeOut,
    TimeLit,
    Range(Option<String>),
    RangeBack,
    RangeOn,
    Mark(Option<String>),
    Note(Option<String>),
    Marks,
    Timeline,
    EventAdd(Option<String>),
    EventEnter,
    EventStop,
    EventPause,
    EventRate(Option<String>),
    EventModifiers(Option<String>),
    EventChains,
    EventCpus(Option<String>),
    PauseAll,
    Probe(Option<String>),
    Attach(Option<String>),
    SaveFilter(Option<String>),
    SavedFilter(Option<String>),
    ForgetFilter(Option<String>),
    Finding,
    Threshold(Option<String>),
    Write(Option<String>),
    CopyCommand,
    Suspend,
    Theme(Option<String>),
    Slow,
    Bytes,
    Redraw,
    Mouse,
    TabUnits,
    Unit(Option<String>),
    UnitPanel,
    UnitPanelBack,
    UnitNext,
    UnitPrevious,
    UnitEnter,
    UnitLeft,
    UnitRight,
    UnitReset,
    UnitStop,
    UnitBaseline,
}

/// A row of the table.
pub struct Row {
    /// As typed after `:`.
    pub name: &'static str,
    /// What the argument is called; empty for commands without one.
    pub argument: &'static str,
    /// Keys; those of a chord are separated by a space.
    pub keys: &'static [&'static str],
    pub group: &'static str,
    pub doc: &'static str,
    make: fn(Option<String>) -> Command,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Row {
    /// The command, with what was typed as its argument.
    pub fn command(&self, argument: Option<String>) -> Command {
        (self.make)(argument)
    }
}

macro_rules! table {
    ($($group:literal { $($name:literal $(: $argument:literal)? $keys:expr => $variant:ident $(($part:expr))?: $doc:literal;)* })*) => {
        /// All commands, in the order of the help.
        pub const TABLE: &[Row] = &[$($(table!(@row $group, $name, [$($argument)?], $keys, $variant [$($part)?], $doc)),*),*];
    };
    (@row $group:literal, $name:literal, [], $keys:expr, $variant:ident [$($part:expr)?], $doc:literal) => {
        Row { name: $name, argument: "", keys: &$keys, group: $group, doc: $doc, make: |_| Command::$variant $(($part))? }
    };
    (@row $group:literal, $name:literal, [$argument:literal], $keys:expr, $variant:ident [], $doc:literal) => {
        Row { name: $name, argument: $argument, keys: &$keys, group: $group, doc: $doc, make: Command::$variant }
    };
}

table! {
    "Move" {
        "up" ["up", "k"] => Up: "up a line";
        "down" ["down", "j"] => Down: "down a line";
        "page-up" ["pgup", "ctrl-b"] => PageUp: "up a page";
        "page-down" ["pgdn", "ctrl-f"] => PageDown: "down a page";
        "home" ["home", "g"] => Home: "to the hottest line, and stay there";
        "end" ["end", "G"] => End: "to the last line";
    }
    "Steps" {
        "undo" ["backspace", "u"] => Undo: "undo the last step: a zoom, a filter, an order, a reset…";
        "redo" ["ctrl-r"] => Redo: "do what was undone again";
        "leave" ["esc"] => Leave: "close what is open, then go back a step of zoom";
        "reset" ["z"] => Reset: "count from now on; samples stay, and undo counts them again";
        "forget" [] => Forget: "forget all samples so far, and what units have counted, for good";
    }
    "Call chains" {
        "toggle" ["enter", "right"] => Toggle: "unfold or fold the line under the cursor";
        "fold" ["left"] => Fold: "fold the line, or go to the one that it belongs to; where there is none, undo";
        "expand" ["="] => ExpandRow: "unfold or fold its whole row";
        "expand-all" ["E"] => ExpandAll: "unfold all rows, or fold them";
        "direction" ["D"] => Direction: "follow callees or callers";
        "annotate": "function" ["A"] => Annotate: "a function's instructions and source lines, with their shares";
        "names" ["."] => NameForm: "C++ and Rust names: short, as perf has them, or with all parameters";
        "inlined" ["J"] => Inlined: "functions that were inlined are frames of their own, or not";
        "fractal" ["%"] => Fractal: "percentages of everything, or of the entry above";
        "limit": "percent" ["L"] => Limit: "hide what is below a share";
    }
    "Find and filter" {
        "search": "regex" ["/"] => Search: "search names";
        "next" ["n"] => NextMatch: "to the next match";
        "previous" ["N"] => PreviousMatch: "to the match before";
        "filter": "expression" ["f"] => Filter: "show only samples that match; the past is filtered too";
        "save-filter": "name" [] => SaveFilter: "keep the present filter and zooms under a name";
        "saved": "name" ["ctrl-s"] => SavedFilter: "filter by what was kept under a name";
        "forget-filter": "name" [] => ForgetFilter: "forget a filter that was kept";
        "range": "from,until" [] => Range: "only a range of time: seconds from the start, or 10%-20%";
        "range-back" ["["] => RangeBack: "to the range of time that was looked at before";
        "range-on" ["]"] => RangeOn: "to the next one again";
        "zoom-thread" ["t"] => Zoom(Key::Tid): "only this row's thread or comm";
        "zoom-process" ["p"] => Zoom(Key::Pid): "only this row's process";
        "zoom-comm" ["c"] => Zoom(Key::Comm): "only this row's comm";
        "zoom-dso" ["d"] => Zoom(Key::Dso): "only this row's DSO";
        "zoom-symbol" ["o"] => Zoom(Key::Sym): "only stacks through this row's function";
        "zoom-cpu": "cpus" ["Q"] => ZoomCpu: "only some CPUs";
        "zoom-kernel" ["ctrl-k"] => ZoomKernel: "only the kernel";
        "zoom-cgroup" ["O"] => Zoom(Key::Cgroup): "only this row's cgroup";
        "zoom-host" ["@"] => Zoom(Key::Host): "only this row's host";
        "not-thread" ["- t"] => LeaveOut(Key::Tid): "leave this row's thread or comm out";
        "not-process" ["- p"] => LeaveOut(Key::Pid): "leave this row's process out";
        "not-comm" ["- c"] => LeaveOut(Key::Comm): "leave this row's comm out";
        "not-dso" ["- d"] => LeaveOut(Key::Dso): "leave this row's DSO out";
        "not-symbol" ["x", "- o"] => LeaveOut(Key::Sym): "leave stacks through this row's function out";
        "not-cgroup" ["- O"] => LeaveOut(Key::Cgroup): "leave this row's cgroup out";
        "not-host" ["- @"] => LeaveOut(Key::Host): "leave this row's host out";
        "not-kernel" ["- ctrl-k"] => ExcludeKernel: "leave the kernel out";
        "idle" ["i"] => ShowIdle: "show or hide idle CPUs";
    }
    "Table" {
        "split" ["tab"] => Split: "rows by function, comm, process, thread, CPU, cgroup, and by function again";
        "split-back" ["backtab"] => SplitBack: "the same, the other way around";
        "columns" ["C"] => Columns: "choose columns";
        "sort": "keys" [] => Sort: "tell rows apart by these keys, e.g. comm,dso,sym";
        "order-right" [">", "s"] => OrderRight: "order by the next column";
        "order-left" ["<"] => OrderLeft: "order by the column before";
        "reverse" ["R"] => Reverse: "turn the order around";
        "children" ["X"] => Children: "count functions with or without what they call";
        "next-event" ["}"] => NextEvent: "the next event";
        "previous-event" ["{"] => PreviousEvent: "the event before";
    }
    "Session" {
        "freeze" ["space"] => Freeze: "freeze the view; sampling goes on";
        "faster" ["r +", "r ="] => Faster: "bring the screen up to date more often";
        "slower" ["r -"] => Slower: "bring the screen up to date less often";
        "refresh": "seconds" ["r r"] => Refresh: "seconds between updates";
        "freq": "hz" ["r f"] => Frequency: "change the sampling rate";
        "unit": "name [options]" ["M"] => Unit: "measure with an analysis unit, beside what runs: rundelay, syscalls, kmemleak…";
        "event": "events" ["r e"] => EventAdd: "measure more events, named as after -e";
        "call-graph": "auto|tables|fp|dwarf[,size]|lbr|none" ["U"] => CallGraph: "how user stacks are taken: from copies by DWARF, and back";
        "probe": "[-x file] function [args]" ["ctrl-a"] => Probe: "measure a function, or a static probe of a program";
        "attach": "all|pid N|comm name|cgroup name" ["r a"] => Attach: "sample other tasks from now on";
        "pause" ["r p"] => PauseAll: "let all events rest, or go on";
        "capture": "filter" ["F"] => Capture: "record only what matches: of a tracepoint, by its fields, in the kernel";
        "cpus": "cpus" [] => Cpus: "sample these CPUs from now on";
        "save": "file" ["S"] => Save: "save a snapshot that perf report opens";
        "copy" ["y", "Y", "ctrl-y"] => Copy: "copy the view as text to the clipboard";
        "write": "file" ["W"] => Write: "write the view as text to a file";
        "command-line" ["K"] => CopyCommand: "copy the command line that shows this view";
        "mark": "letter [note]" ["'"] => Mark: "' and a letter: to that mark, or set it here; '' lists them";
        "note": "text" [] => Note: "note something on this moment";
        "marks" [] => Marks: "list marks and notes";
        "losses" ["l"] => Losses: "what was lost, what it costs, what to know";
        "info" ["I"] => Info: "the machine, the recording's head, records by type";
        "stop" [] => StopLoading: "stop loading a recording; what is there stays";
    }
    "Compare" {
        "baseline": "file or filter" ["b", "m"] => Baseline: "compare with the past, a filter or a recording";
        "baseline-off" ["B"] => BaselineOff: "compare with nothing any more";
        "per": "total|second|nothing" ["P"] => Per: "what weights are divided by before they are compared";
        "window": "all|last s|half s" ["a"] => Window: "the last 30 seconds, all since the start, or old samples for less";
    }
    "Flame graph" {
        "flame-left" ["left"] => FlameLeft: "to the sibling on the left";
        "flame-right" ["right"] => FlameRight: "to the sibling on the right";
        "flame-tasks" ["tab"] => FlameTasks: "stacks stand on programs, on processes, or on all tasks together";
        "flame-zoom" ["enter"] => FlameZoom: "make the frame under the cursor as wide as the screen";
        "flip" ["e u"] => Flip: "put the root at the bottom, or on top";
        "leaves" ["R"] => Leaves: "start from the leaves, or from the root";
        "around": "regex" ["w"] => Around: "callers above and callees below a function";
        "mark-all" ["*"] => MarkAll: "mark the function under the cursor everywhere";
        "focus": "name" ["e b"] => Focus: "begin stacks at a function";
        "drop": "name" ["x"] => Drop: "leave out samples whose stack has a function";
        "merge": "name" ["e m"] => Merge: "count a function's time for its caller";
        "merge-dso": "name" ["e d"] => MergeDso: "count all of a DSO's functions for their callers";
        "recursion" ["e r"] => Recursion: "a function that calls itself is one frame";
        "by-dso" ["e o"] => ByDso: "frames are DSOs instead of functions";
        "chains" ["e c"] => Chains: "chains of frames with one child each are one frame";
        "off-cpu" ["e w"] => OffCpu: "time off the CPUs beside the time on them, where switches are recorded";
    }
    "Time" {
        "time-left" ["left"] => TimeLeft: "a column back";
        "time-right" ["right"] => TimeRight: "a column on";
        "time-select" ["v"] => TimeSelect: "select from here, in order of time, or rows and columns";
        "time-columns" ["V"] => TimeColumns: "select whole columns from here";
        "time-enter" ["enter"] => TimeEnter: "only what is selected, on every screen";
        "time-baseline" ["b", "m"] => TimeBaseline: "compare with the selected time";
        "time-rows": "offset|cpu|task|dso|function|latency" ["tab"] => TimeRows: "what the rows are";
        "time-in" ["+", "="] => TimeIn: "shorter columns";
        "time-out" ["-"] => TimeOut: "longer columns";
        "time-scale" ["%"] => TimeScale: "colours by rank, or by share of the highest";
        "time-highlight" ["*"] => TimeLit: "highlight no function's samples any more";
    }
    "CPUs" {
        "cpu-left" ["left"] => CpuLeft: "to the column on the left";
        "cpu-right" ["right"] => CpuRight: "to the column on the right";
        "cpu-enter" ["enter"] => CpuEnter: "the functions of this cell: only its samples, on every screen";
        "softirq-time" ["t"] => SoftirqTime: "measure the time in softirqs and interrupts, or stop measuring it";
        "cpu-page" ["tab"] => CpuPage: "other columns: vectors, rates, interrupts, network, place";
        "cpu-order" ["s"] => CpuOrder: "order by the column under the cursor";
        "cpu-capture" ["F"] => CpuCapture: "sample only the CPU under the cursor from now on";
    }
    "Events" {
        "event-enter" ["enter"] => EventEnter: "start the event under the cursor, or show its samples";
        "event-stop" ["del", "x"] => EventStop: "stop it; its samples stay";
        "event-pause" ["e p"] => EventPause: "let it rest, or go on";
        "event-rate": "hz|1/n" ["e r"] => EventRate: "sample it so often: 999 a second, 1/100 of its hits, or 0: only counted";
        "event-modifiers": "letters" ["e m"] => EventModifiers: "u, k, I and the like: what of it is measured";
        "event-chains" ["e g"] => EventChains: "with call chains, or without";
        "event-cpus": "cpus" ["e c"] => EventCpus: "measure it on these CPUs only";
    }
    "Units" {
        "unit-panel" ["tab"] => UnitPanel: "to the unit's next panel";
        "unit-panel-back" ["backtab"] => UnitPanelBack: "to the panel before";
        "unit-left" ["left"] => UnitLeft: "to the panel before; in a flame graph, to the frame on the left";
        "unit-right" ["right"] => UnitRight: "to the next panel; in a flame graph, to the frame on the right";
        "unit-next" ["}"] => UnitNext: "to the next unit";
        "unit-previous" ["{"] => UnitPrevious: "to the unit before";
        "unit-enter" ["enter"] => UnitEnter: "what the row under the cursor is about; fold a row of a tree; zoom into a frame";
        "unit-baseline" ["b", "m"] => UnitBaseline: "compare with this moment, or with nothing any more";
        "unit-reset" ["Z"] => UnitReset: "reset the figures of all units; they cannot be brought back";
        "unit-stop" ["del", "x"] => UnitStop: "end the unit";
    }
    "Program" {
        "top" ["1"] => TabTop: "the table";
        "flame" ["2"] => TabFlame: "the flame graph";
        "time" ["3"] => TabTime: "when samples came: a column a second, offsets inside it downwards";
        "cpu-screen" ["4"] => TabCpus: "the CPUs and their softirqs";
        "events" ["5"] => TabEvents: "the events: what is measured, what could be";
        "units" ["6"] => TabUnits: "analysis units: perf-prof's questions, live";
        "timeline" ["T"] => Timeline: "show or hide the timeline above table and flame graph";
        "finding" ["!"] => Finding: "go to what the message is about: an anomalous CPU, code without names";
        "dismiss" ["~"] => Dismiss: "say no more of what the message is about";
        "threshold": "points" [] => Threshold: "how far a CPU must stand above the others to be told";
        "help" ["?", "h", "f1"] => Help: "this help";
        "palette" [":"] => Palette: "find and run any command";
        "theme": "name" [] => Theme: "other colours; each is shown while it is chosen";
        "slow" [] => Slow: "two frames a second at most, for slow links, or as many as there are";
        "bytes" [] => Bytes: "show how many bytes a second the screen takes";
        "mouse" ["alt-m"] => Mouse: "leave the mouse to the terminal, or take it back";
        "redraw" ["ctrl-l"] => Redraw: "draw the screen again";
        "suspend" ["ctrl-z"] => Suspend: "stop the program until fg";
        "quit" ["q", "ctrl-c"] => Quit: "leave";
    }
}

/// The row of a name.
pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// Reads a command as typed after `:`.
pub fn parse(text: &str) -> Result<Command, String> {
    let text = text.trim();
    let (name, argument) = text.split_once(char::is_whitespace).map_or((text, ""), |(n, a)| (n, a.trim()));
    let Some(row) = find(name) else {
        let near = nearest(name, TABLE.iter().map(|r| r.name));
        let hint = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
        return Err(format!("no command is called {name}{hint}"));
    };
    if row.argument.is_empty() && !argument.is_empty() {
        return Err(format!("{name} takes no argument"));
    }
    Ok(row.command((!argument.is_empty()).then(|| argument.to_owned())))
}

/// Groups of commands whose keys work on one screen only, and there before all others.
pub const FLAME: &str = "Flame graph";
pub const CPUS: &str = "CPUs";
pub const EVENTS: &str = "Events";
pub const TIME: &str = "Time";
pub const UNITS: &str = "Units";

/// The group that a row's keys are bound to: none for those that work everywhere.
pub fn layer(row: &Row) -> Option<&'static str> {
    [FLAME, TIME, CPUS, EVENTS, UNITS].into_iter().find(|group| *group == row.group)
}

/// The README's table of keys.
pub fn markdown() -> String {
    let mut out = String::from("| key | command | what it does |\n|---|---|---|\n");
    for row in TABLE {
        let keys: Vec<String> = row.keys.iter().map(|k| format!("`{}`", k.replace('|', "\\|"))).collect();
        let argument =
            if row.argument.is_empty() { String::new() } else { format!(" {}", row.argument.to_uppercase()) };
        out.push_str(&format!("| {} | `:{}{argument}` | {} |\n", keys.join(" "), row.name, row.doc));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things() {
        let of = |own: Option<&'static str>| {
            let mine = |r: &&Row| layer(r) == own;
            let mut keys: Vec<&str> = TABLE.iter().filter(mine).flat_map(|r| r.keys).copied().collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|w| w[0] != w[1]), "{keys:?}");
            keys
        };
        let keys = of(None);
        for own in [None, Some(FLAME), Some(TIME), Some(CPUS), Some(EVENTS), Some(UNITS)] {
            let mut here = of(own);
            here.extend(&keys);
            let mut begun = here.iter().filter(|k| k.contains(' ')).filter_map(|chord| chord.split(' ').next());
            // A screen's own key may stand before a chord that begins like it everywhere else.
            assert!(begun.all(|first| !here.contains(&first) || own == Some(TIME) && first == "-"), "{own:?}");
        }
    }

    /// Letters under which a hand would expect the same everywhere: each has one meaning, whichever screen it is
    /// pressed on, or none.
    #[test]
    fn letters_mean_one_thing_on_all_screens() {
        let meanings = [
            ("x", &["not-symbol", "drop", "event-stop", "unit-stop"][..], "away with what is under the cursor"),
            ("c", &["zoom-comm"], "only this comm"),
            ("b", &["baseline", "time-baseline", "unit-baseline"], "compare with this"),
            ("m", &["baseline", "time-baseline", "unit-baseline"], "compare with this"),
            ("y", &["copy"], "copy"),
            ("a", &["window"], "the window of time"),
            ("i", &["idle"], "idle CPUs"),
            ("s", &["order-right", "cpu-order"], "order"),
            ("v", &["time-select"], "select"),
            ("r", &[], "begins chords"),
            ("u", &["undo"], "undo"),
        ];
        for (key, names, meaning) in meanings {
            let of: Vec<&str> = TABLE.iter().filter(|row| row.keys.contains(&key)).map(|row| row.name).collect();
            assert_eq!(of, names, "{key}: {meaning}");
        }
    }

    #[test]
    fn names_parse_and_faults_offer_the_nearest() {
        for row in TABLE {
            assert_eq!(parse(row.name), Ok(row.command(None)), "{}", row.name);
        }
        assert_eq!(parse("freq 99"), Ok(Command::Frequency(Some("99".into()))));
        assert_eq!(parse(" search  tcp send "), Ok(Command::Search(Some("tcp send".into()))));
        assert!(parse("fitler x").expect_err("unknown").contains("filter"));
        assert!(parse("quit now").is_err());
    }
}
