//! Commands available on every screen: navigation, undo, filters, session, comparison.

use crate::engine::Request;
use crate::query::ColumnKey;
use crate::source::Control;
use crate::ui::input::action::Action::{Asked, Given, Plain};
use crate::ui::input::action::commands;
use crate::ui::input::{Argument, ArgumentKind};
use crate::ui::popups::Popup;
use crate::ui::screens::screen::CursorStep::{End, Home, Lines, Pages};

commands! { MOVE "Move" {
    UP "up" ["up", "k"] "move up one line" => Plain(|app| app.move_cursor(Lines(-1)));
    DOWN "down" ["down", "j"] "move down one line" => Plain(|app| app.move_cursor(Lines(1)));
    PAGE_UP "page-up" ["pgup", "ctrl-b"] "move up one page" => Plain(|app| app.move_cursor(Pages(-1)));
    PAGE_DOWN "page-down" ["pgdn", "ctrl-f"] "move down one page" => Plain(|app| app.move_cursor(Pages(1)));
    HOME "home" ["home", "g"] "go to the hottest line, and stay there" => Plain(|app| app.move_cursor(Home));
    END "end" ["end", "G"] "go to the last line" => Plain(|app| app.move_cursor(End));
}}

commands! { STEPS "Steps" {
    UNDO "undo" ["backspace", "u"] "undo the last step: a zoom, a filter, an order, a reset…"
        says "back revert restore"
        => Plain(|app| app.undo());
    REDO "redo" ["ctrl-r"] "redo the last undone step" => Plain(|app| app.redo());
    LEAVE "leave" ["esc"] "close what is open, or undo the last zoom" => Plain(|app| app.leave());
    RESET "reset" ["z"] "count from now on; undo restores earlier samples"
        => Plain(|app| app.model.count_from_now());
    FORGET "forget" [] "delete all samples and figures of units so far; this cannot be undone" => Plain(|app| {
        app.model.request(Request::Clear);
        app.model.say("all samples were deleted");
    });
}}

commands! { FIND "Find and filter" {
    SEARCH "search" ["/"] "search names"
        says "find grep" (Argument::of("regex", "search", ArgumentKind::Pattern).or_nothing())
        => Given(|app, text| app.model.search(text));
    NEXT "next" ["n"] "go to the next match" of table => Plain(|app| app.model.top.next(1, &app.model.context.answer));
    PREVIOUS "previous" ["N"] "go to the previous match" of table => Plain(|app| app.model.top.next(-1, &app.model.context.answer));
    FILTER "filter" ["f"] "show only samples that match, including earlier ones"
        says "where grep comm process pid nginx"
        (Argument::of("expression", "filter", ArgumentKind::Filter).or_nothing())
        => Asked(|app, text| app.model.set_filter(text), |model| model.selection.filter.as_ref().map_or_else(String::new, |filter| filter.text().to_owned()));
    SAVE_FILTER "save-filter" [] "save the current filter and zooms under a name" (Argument::of("name", "keep as", ArgumentKind::Text))
        => Asked(|app, name| app.model.save_filter(name), |_| String::new());
    SAVED "saved" ["ctrl-s"] "apply a saved filter" (Argument::of("name", "filter kept as", ArgumentKind::Saved))
        => Given(|app, name| app.model.use_filter(name));
    FORGET_FILTER "forget-filter" [] "delete a saved filter" (Argument::named("name"))
        => Given(|app, name| app.model.forget_filter(name));
    RANGE "range" [] "show a range of time: 5,10  -30s,-20s  14:03,14:05  10%-20%"
        says "when ago past since clock minutes time"
        (Argument::of("from,until", "5,10 or -30s,-20s or 14:03,14:05", ArgumentKind::Text))
        => Asked(|app, text| app.model.set_range(&text), |_| String::new());
    RANGE_BACK "range-back" ["["] "go to the previous range of time" => Plain(|app| app.model.walk_ranges(-1));
    RANGE_ON "range-on" ["]"] "go to the next range of time" => Plain(|app| app.model.walk_ranges(1));
    ONLY "only" [] "show only one process, thread, comm, container, CPU: pid 1"
        (Argument::of("field value", "only (pid 1, comm nginx)", ArgumentKind::Text))
        => Asked(|app, text| app.model.zoom_to(&text), |_| String::new());
    ZOOM_THREAD "zoom-thread" ["t"] "show only this row's thread or comm" of table => Plain(|app| app.model.zoom(ColumnKey::Tid, false));
    ZOOM_PROCESS "zoom-process" ["p"] "show only this row's process" of table => Plain(|app| app.model.zoom(ColumnKey::Pid, false));
    ZOOM_COMM "zoom-comm" ["c"] "show only this row's comm" of table => Plain(|app| app.model.zoom(ColumnKey::Comm, false));
    ZOOM_DSO "zoom-dso" ["d"] "show only this row's DSO" of table => Plain(|app| app.model.zoom(ColumnKey::Dso, false));
    ZOOM_SYMBOL "zoom-symbol" ["o"] "show only stacks through this row's function" of table
        => Plain(|app| app.model.zoom(ColumnKey::Sym, false));
    ZOOM_CPU "zoom-cpu" ["Q"] "show only some CPUs" (Argument::of("cpus", "CPUs", ArgumentKind::Text))
        => Given(|app, text| app.model.zoom_cpu(text));
    ZOOM_KERNEL "zoom-kernel" ["ctrl-k"] "show only kernel code"
        => Plain(|app| app.model.push_zoom("kernel".into(), "kernel".into()));
    ZOOM_CGROUP "zoom-cgroup" ["O"] "show only this row's cgroup" of table => Plain(|app| app.model.zoom(ColumnKey::Cgroup, false));
    ZOOM_CONTAINER "zoom-container" ["H"] "show only this row's container" of table
        => Plain(|app| app.model.zoom(ColumnKey::Container, false));
    ZOOM_HOST "zoom-host" ["@"] "show only this row's host" of table => Plain(|app| app.model.zoom(ColumnKey::Host, false));
    NOT_THREAD "not-thread" ["- t"] "exclude this row's thread or comm" of table
        => Plain(|app| app.model.zoom(ColumnKey::Tid, true));
    NOT_PROCESS "not-process" ["- p"] "exclude this row's process" of table => Plain(|app| app.model.zoom(ColumnKey::Pid, true));
    NOT_COMM "not-comm" ["- c"] "exclude this row's comm" of table => Plain(|app| app.model.zoom(ColumnKey::Comm, true));
    NOT_DSO "not-dso" ["- d"] "exclude this row's DSO" of table => Plain(|app| app.model.zoom(ColumnKey::Dso, true));
    NOT_SYMBOL "not-symbol" ["x", "- o"] "exclude stacks through this row's function" of table
        => Plain(|app| app.model.zoom(ColumnKey::Sym, true));
    NOT_CGROUP "not-cgroup" ["- O"] "exclude this row's cgroup" of table => Plain(|app| app.model.zoom(ColumnKey::Cgroup, true));
    NOT_CONTAINER "not-container" ["- H"] "exclude this row's container" of table
        => Plain(|app| app.model.zoom(ColumnKey::Container, true));
    NOT_HOST "not-host" ["- @"] "exclude this row's host" of table => Plain(|app| app.model.zoom(ColumnKey::Host, true));
    NOT_KERNEL "not-kernel" ["- ctrl-k"] "exclude kernel code"
        => Plain(|app| app.model.push_zoom("not kernel".into(), "!(kernel)".into()));
    IDLE "idle" ["i"] "show or hide idle CPUs, and idle threads of the kernel" => Plain(|app| app.model.toggle_idle());
}}

commands! { SESSION "Session" {
    FREEZE "freeze" ["space"] "freeze the view; sampling goes on" => Plain(|app| {
        app.model.selection.frozen = !app.model.selection.frozen;
        app.model.request(Request::Freeze(app.model.selection.frozen));
    });
    FASTER "faster" ["r +", "r ="] "update the screen more often"
        => Plain(|app| app.model.set_refresh(app.model.selection.refresh.div_f64(2.0)));
    SLOWER "slower" ["r -"] "update the screen less often"
        => Plain(|app| app.model.set_refresh(app.model.selection.refresh.mul_f64(2.0)));
    REFRESH "refresh" ["r r"] "set the seconds between updates" (Argument::of("seconds", "seconds", ArgumentKind::Text))
        => Asked(|app, text| app.model.parse_refresh(&text), |_| String::new());
    FREQ "freq" ["r f"] "change the sampling rate"
        says "hz sampling rate overhead" (Argument::of("hz", "Hz", ArgumentKind::Text))
        => Asked(|app, text| app.model.set_frequency(&text), |_| String::new());
    UNIT "unit" ["M"] "start an analysis unit in this session: rundelay, syscalls, kmemleak…"
        says "measure"
        (Argument::named("name [options]")) => Given(|app, text| app.views.units.add(&mut app.model, text));
    EVENT "event" ["r e"] "add events, named as after -e"
        says "tracepoint counter pmu hardware" (Argument::of("events", "measure", ArgumentKind::Text))
        => Given(|app, names| app.model.add_event(names));
    CALL_GRAPH "call-graph" ["U"] "unwind user stacks from DWARF copies, or as before"
        says "stack dwarf unwind broken frame-pointer"
        (Argument::named("auto|tables|fp|dwarf[,size]|lbr|none")) => Given(|app, way| app.model.call_graph(way));
    INTERPRETERS "interp" ["alt-i"] "show functions of languages, their interpreter, or both"
        says "python php ruby perl java node language frames native"
        (Argument::named("auto|both|only|off")) => Given(|app, shown| app.model.show_interpreters(shown));
    PROBE "probe" ["ctrl-a"] "create a probe on a function or a static probe, and measure it"
        says "uprobe kprobe function malloc"
        (Argument::of("[-x file] function [args]", "probe", ArgumentKind::Text))
        => Asked(|app, text| app.model.control(Control::Probe(text)), |_| String::new());
    ATTACH "attach" ["r a"] "sample other tasks from now on"
        says "pid process target follow container"
        (Argument::of("all|pid N|comm name|container name", "sample", ArgumentKind::Target))
        => Asked(|app, text| app.model.control(Control::Target(text)), |_| String::new());
    PERF_MAP "perf-map" ["alt-j"] "name a Java process's JIT code now (jcmd Compiler.perfmap)"
        says "java jit symbols jcmd"
        (Argument::of("pid", "run jcmd PID Compiler.perfmap for the process", ArgumentKind::Text))
        => Asked(|app, pid| app.model.write_perf_map(&pid), |model| model.process_of_jit());
    PAUSE "pause" ["r p"] "pause all events, or resume them" => Plain(|app| app.model.pause_all());
    CAPTURE "capture" ["F"] "record only what matches from now on"
        (Argument::of("filter", "record only", ArgumentKind::Capture).or_nothing())
        => Given(|app, text| app.model.capture_of(app.model.selection.event, text));
    CPUS "cpus" [] "sample these CPUs from now on" (Argument::of("cpus", "sample CPUs", ArgumentKind::Text))
        => Asked(|app, text| app.model.sample_cpus(&text), |model| model.context.answer.cpus.clone());
    SAVE "save" ["S"] "save a snapshot as perf.data, for perf report"
        says "record snapshot dump evidence perf.data export" (Argument::named("file"))
        => Given(|app, path| app.model.save(path, false));
    SAVE_DIGEST "save-digest" ["alt-s"] "save a snapshot, and one page about it as text next to it"
        says "ticket report summary page" (Argument::named("file"))
        => Given(|app, path| app.model.save(path, true));
    COPY "copy" ["y", "Y", "ctrl-y"] "copy the view as text to the clipboard"
        says "clipboard yank" => Plain(|app| app.copy());
    WRITE "write" ["W"] "write the view as text to a file"
        says "export text print" (Argument::of("file", "write the view to the file", ArgumentKind::Text))
        => Asked(|app, path| app.write(path), |_| String::new());
    COMMAND_LINE "command-line" ["K"] "copy the command line that shows this view" => Plain(|app| app.copy_command());
    MARK "mark" ["'"] "' and a letter: go to that mark, or set it here; '' lists marks" (Argument::named("letter [note]"))
        => Given(|app, text| app.views.time.mark(&mut app.model, text));
    NOTE "note" [] "attach a note to this moment" (Argument::of("text", "note", ArgumentKind::Text))
        => Asked(|app, text| app.views.time.note_moment(&mut app.model, text), |_| String::new());
    MARKS "marks" [] "list marks and notes" => Plain(|app| app.model.frame.popups.push(Popup::Marks { cursor: 0 }));
    LOSSES "losses" ["l"] "show losses, the cost of sampling and notes"
        says "lost cost overhead own memory"
        => Plain(|app| app.model.frame.popups.push(Popup::Losses { scroll: 0 }));
    INFO "info" ["I"] "show the machine, the recording's header, records by type"
        says "kernel version host header"
        => Plain(|app| app.model.frame.popups.push(Popup::Info { scroll: 0 }));
    STOP "stop" [] "stop loading a recording; loaded samples stay" => Plain(|app| app.model.stop_loading());
}}

commands! { COMPARE "Compare" {
    BASELINE "baseline" ["b", "m"] "compare with the past, a filter or a recording"
        says "diff compare before after against regression changed" (Argument::named("file or filter"))
        => Given(|app, text| app.model.set_baseline(text));
    BASELINE_OFF "baseline-off" ["B"] "stop comparing" => Plain(|app| app.model.drop_baseline());
    PER "per" ["P"] "normalize weights before comparing them" (Argument::named("total|second|nothing"))
        => Given(|app, text| app.model.set_per(text));
    OF_MACHINE "of-machine" ["#"] "show shares of the machine's CPU time, or of what is shown"
        says "percent share total base idle htop" => Plain(|app| {
        app.model.selection.of_machine = !app.model.selection.of_machine;
        app.model.say(match app.model.selection.of_machine {
            true => "percentages are of the machine's CPU time",
            false => "percentages are of what is shown",
        });
    });
    WALL "wall" ["ctrl-o"] "show wall time, time off the CPUs alone, or CPU time"
        says "off-cpu wait sleep blocked elapsed latency slow" (Argument::named("cpu|wall|off-cpu"))
        => Given(|app, text| app.model.turn_time(text));
    WINDOW "window" ["a"] "cover the last 30 seconds, all since the start, or decaying weights"
        (Argument::named("all|last s|half s")) => Given(|app, text| app.model.set_window(text));
}}
