//! Commands available on every screen: navigation, undo, filters, session, comparison.

use crate::engine::Request;
use crate::query::ColumnKey;
use crate::source::Control;
use crate::ui::act::Act::{Asked, Given, Plain};
use crate::ui::act::commands;
use crate::ui::command::{Argument, ArgumentKind};
use crate::ui::popup::Popup;

commands! { MOVE "Move" {
    UP "up" ["up", "k"] "up a line" of table => Plain(|app| app.step_line(-1));
    DOWN "down" ["down", "j"] "down a line" of table => Plain(|app| app.step_line(1));
    PAGE_UP "page-up" ["pgup", "ctrl-b"] "up a page" of table => Plain(|app| app.step_line(-app.table_page()));
    PAGE_DOWN "page-down" ["pgdn", "ctrl-f"] "down a page" of table => Plain(|app| app.step_line(app.table_page()));
    HOME "home" ["home", "g"] "to the hottest line, and stay there" => Plain(|app| app.views.top.home());
    END "end" ["end", "G"] "to the last line" => Plain(|app| app.step_line(isize::MAX));
}}

commands! { STEPS "Steps" {
    UNDO "undo" ["backspace", "u"] "undo the last step: a zoom, a filter, an order, a reset…"
        says "back revert restore"
        => Plain(|app| app.undo());
    REDO "redo" ["ctrl-r"] "redo the last undone step" => Plain(|app| app.redo());
    LEAVE "leave" ["esc"] "close what is open, then go back a step of zoom" => Plain(|app| app.leave());
    RESET "reset" ["z"] "count from now on; undo restores earlier samples"
        => Plain(|app| app.count_from_now());
    FORGET "forget" [] "delete all samples so far and all figures of units; this cannot be undone" => Plain(|app| {
        app.request(Request::Clear);
        app.say("all samples were deleted");
    });
}}

commands! { FIND "Find and filter" {
    SEARCH "search" ["/"] "search names"
        says "find grep" (Argument::of("regex", "search", ArgumentKind::Pattern).or_nothing())
        => Given(|app, text| app.search(text));
    NEXT "next" ["n"] "to the next match" of table => Plain(|app| app.views.top.next(1, &app.context.answer));
    PREVIOUS "previous" ["N"] "to the previous match" of table => Plain(|app| app.views.top.next(-1, &app.context.answer));
    FILTER "filter" ["f"] "show only samples that match; the past is filtered too"
        says "where grep comm process pid nginx"
        (Argument::of("expression", "filter", ArgumentKind::Filter).or_nothing())
        => Asked(|app, text| app.set_filter(text), |app| app.selection.filter.clone().unwrap_or_default());
    SAVE_FILTER "save-filter" [] "keep the present filter and zooms under a name" (Argument::of("name", "keep as", ArgumentKind::Text))
        => Asked(|app, name| app.save_filter(name), |_| String::new());
    SAVED "saved" ["ctrl-s"] "filter by what was kept under a name" (Argument::of("name", "filter kept as", ArgumentKind::Saved))
        => Given(|app, name| app.use_filter(name));
    FORGET_FILTER "forget-filter" [] "forget a filter that was kept" (Argument::named("name"))
        => Given(|app, name| app.forget_filter(name));
    RANGE "range" [] "only a range of time: 5,10  -30s,-20s  14:03,14:05  10%-20%"
        says "when ago past since clock minutes time"
        (Argument::of("from,until", "5,10 or -30s,-20s or 14:03,14:05", ArgumentKind::Text))
        => Asked(|app, text| app.set_range(&text), |_| String::new());
    RANGE_BACK "range-back" ["["] "to the previous range of time" => Plain(|app| app.walk_ranges(-1));
    RANGE_ON "range-on" ["]"] "to the next range of time" => Plain(|app| app.walk_ranges(1));
    ONLY "only" [] "only one process, thread, comm, container or CPU, as pid 1 or comm nginx"
        (Argument::of("field value", "only (pid 1, comm nginx)", ArgumentKind::Text))
        => Asked(|app, text| app.zoom_to(&text), |_| String::new());
    ZOOM_THREAD "zoom-thread" ["t"] "only this row's thread or comm" of table => Plain(|app| app.zoom(ColumnKey::Tid, false));
    ZOOM_PROCESS "zoom-process" ["p"] "only this row's process" of table => Plain(|app| app.zoom(ColumnKey::Pid, false));
    ZOOM_COMM "zoom-comm" ["c"] "only this row's comm" of table => Plain(|app| app.zoom(ColumnKey::Comm, false));
    ZOOM_DSO "zoom-dso" ["d"] "only this row's DSO" of table => Plain(|app| app.zoom(ColumnKey::Dso, false));
    ZOOM_SYMBOL "zoom-symbol" ["o"] "only stacks through this row's function" of table
        => Plain(|app| app.zoom(ColumnKey::Sym, false));
    ZOOM_CPU "zoom-cpu" ["Q"] "only some CPUs" (Argument::of("cpus", "CPUs", ArgumentKind::Text))
        => Given(|app, text| app.zoom_cpu(text));
    ZOOM_KERNEL "zoom-kernel" ["ctrl-k"] "only the kernel"
        => Plain(|app| app.push_zoom("kernel".into(), "kernel".into()));
    ZOOM_CGROUP "zoom-cgroup" ["O"] "only this row's cgroup" of table => Plain(|app| app.zoom(ColumnKey::Cgroup, false));
    ZOOM_CONTAINER "zoom-container" ["H"] "only this row's container" of table
        => Plain(|app| app.zoom(ColumnKey::Container, false));
    ZOOM_HOST "zoom-host" ["@"] "only this row's host" of table => Plain(|app| app.zoom(ColumnKey::Host, false));
    NOT_THREAD "not-thread" ["- t"] "leave this row's thread or comm out" of table
        => Plain(|app| app.zoom(ColumnKey::Tid, true));
    NOT_PROCESS "not-process" ["- p"] "leave this row's process out" of table => Plain(|app| app.zoom(ColumnKey::Pid, true));
    NOT_COMM "not-comm" ["- c"] "leave this row's comm out" of table => Plain(|app| app.zoom(ColumnKey::Comm, true));
    NOT_DSO "not-dso" ["- d"] "leave this row's DSO out" of table => Plain(|app| app.zoom(ColumnKey::Dso, true));
    NOT_SYMBOL "not-symbol" ["x", "- o"] "leave stacks through this row's function out" of table
        => Plain(|app| app.zoom(ColumnKey::Sym, true));
    NOT_CGROUP "not-cgroup" ["- O"] "leave this row's cgroup out" of table => Plain(|app| app.zoom(ColumnKey::Cgroup, true));
    NOT_CONTAINER "not-container" ["- H"] "leave this row's container out" of table
        => Plain(|app| app.zoom(ColumnKey::Container, true));
    NOT_HOST "not-host" ["- @"] "leave this row's host out" of table => Plain(|app| app.zoom(ColumnKey::Host, true));
    NOT_KERNEL "not-kernel" ["- ctrl-k"] "leave the kernel out"
        => Plain(|app| app.push_zoom("not kernel".into(), "!(kernel)".into()));
    IDLE "idle" ["i"] "show or hide idle CPUs" => Plain(|app| {
        app.selection.hide_idle = !app.selection.hide_idle;
        app.say(if app.selection.hide_idle { "idle CPUs are hidden" } else { "idle CPUs are shown" });
    });
}}

commands! { SESSION "Session" {
    FREEZE "freeze" ["space"] "freeze the view; sampling goes on" => Plain(|app| {
        app.selection.frozen = !app.selection.frozen;
        app.request(Request::Freeze(app.selection.frozen));
    });
    FASTER "faster" ["r +", "r ="] "bring the screen up to date more often"
        => Plain(|app| app.set_refresh(app.selection.refresh.div_f64(2.0)));
    SLOWER "slower" ["r -"] "bring the screen up to date less often"
        => Plain(|app| app.set_refresh(app.selection.refresh.mul_f64(2.0)));
    REFRESH "refresh" ["r r"] "seconds between updates" (Argument::of("seconds", "seconds", ArgumentKind::Text))
        => Asked(|app, text| app.parse_refresh(&text), |_| String::new());
    FREQ "freq" ["r f"] "change the sampling rate"
        says "hz sampling rate overhead" (Argument::of("hz", "Hz", ArgumentKind::Text))
        => Asked(|app, text| app.set_frequency(&text), |_| String::new());
    UNIT "unit" ["M"] "measure with an analysis unit in this session: rundelay, syscalls, kmemleak…"
        says "measure"
        (Argument::named("name [options]")) => Given(|app, text| app.add_unit(text));
    EVENT "event" ["r e"] "measure more events, named as after -e"
        says "tracepoint counter pmu hardware" (Argument::of("events", "measure", ArgumentKind::Text))
        => Given(|app, names| app.add_event(names));
    CALL_GRAPH "call-graph" ["U"] "how user stacks are unwound: by DWARF or frame pointers"
        says "stack dwarf unwind broken frame-pointer"
        (Argument::named("auto|tables|fp|dwarf[,size]|lbr|none")) => Given(|app, way| app.call_graph(way));
    PROBE "probe" ["ctrl-a"] "measure a function, or a static probe of a program"
        says "uprobe kprobe function malloc"
        (Argument::of("[-x file] function [args]", "probe", ArgumentKind::Text))
        => Asked(|app, text| app.control(Control::Probe(text)), |_| String::new());
    ATTACH "attach" ["r a"] "sample other tasks from now on"
        says "pid process target follow container"
        (Argument::of("all|pid N|comm name|container name", "sample", ArgumentKind::Target))
        => Asked(|app, text| app.control(Control::Target(text)), |_| String::new());
    PAUSE "pause" ["r p"] "let all events rest, or go on" => Plain(|app| app.pause_all());
    CAPTURE "capture" ["F"] "record only what matches: of a tracepoint, by its fields, in the kernel"
        (Argument::of("filter", "record only", ArgumentKind::Capture).or_nothing())
        => Given(|app, text| app.capture_of(app.selection.event, text));
    CPUS "cpus" [] "sample these CPUs from now on" (Argument::of("cpus", "sample CPUs", ArgumentKind::Text))
        => Asked(|app, text| app.sample_cpus(&text), |app| app.context.answer.cpus.clone());
    SAVE "save" ["S"] "save a snapshot that perf report opens"
        says "record snapshot dump evidence perf.data export" (Argument::named("file"))
        => Given(|app, path| app.save(path));
    COPY "copy" ["y", "Y", "ctrl-y"] "copy the view as text to the clipboard"
        says "clipboard yank" => Plain(|app| app.copy());
    WRITE "write" ["W"] "write the view as text to a file"
        says "export text print" (Argument::of("file", "write to", ArgumentKind::Text))
        => Asked(|app, path| app.write(path), |_| String::new());
    COMMAND_LINE "command-line" ["K"] "copy the command line that shows this view" => Plain(|app| app.copy_command());
    MARK "mark" ["'"] "' and a letter: to that mark, or set it here; '' lists them" (Argument::named("letter [note]"))
        => Given(|app, text| app.mark(text));
    NOTE "note" [] "note something on this moment" (Argument::of("text", "note", ArgumentKind::Text))
        => Asked(|app, text| app.note_moment(text), |_| String::new());
    MARKS "marks" [] "list marks and notes" => Plain(|app| app.open(Popup::Marks { cursor: 0 }));
    LOSSES "losses" ["l"] "losses, cost of sampling, notes"
        says "lost cost overhead own memory"
        => Plain(|app| app.open(Popup::Losses { scroll: 0 }));
    INFO "info" ["I"] "the machine, the recording's header, records by type"
        says "kernel version host header"
        => Plain(|app| app.open(Popup::Info { scroll: 0 }));
    STOP "stop" [] "stop loading a recording; loaded samples stay" => Plain(|app| app.stop_loading());
}}

commands! { COMPARE "Compare" {
    BASELINE "baseline" ["b", "m"] "compare with the past, a filter or a recording"
        says "diff compare before after against regression changed" (Argument::named("file or filter"))
        => Given(|app, text| app.set_baseline(text));
    BASELINE_OFF "baseline-off" ["B"] "stop comparing" => Plain(|app| app.drop_baseline());
    PER "per" ["P"] "normalize weights before comparing them" (Argument::named("total|second|nothing"))
        => Given(|app, text| app.set_per(text));
    OF_MACHINE "of-machine" ["#"] "shares of the machine's CPU time, or of what is shown"
        says "percent share total base idle htop" => Plain(|app| {
        app.selection.of_machine = !app.selection.of_machine;
        app.say(match app.selection.of_machine {
            true => "percentages are of the machine's CPU time",
            false => "percentages are of what is shown",
        });
    });
    WINDOW "window" ["a"] "the last 30 seconds, all since the start, or decaying weights"
        (Argument::named("all|last s|half s")) => Given(|app, text| app.set_window(text));
}}
