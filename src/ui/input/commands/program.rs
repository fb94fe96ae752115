//! Commands of the program: screens, messages, help, appearance.

use crate::ui::input::action::Action::{Given, Plain};
use crate::ui::input::action::commands;
use crate::ui::input::{Argument, ArgumentKind};
use crate::ui::popups::{Popup, Searched};
use crate::ui::state::{Effect, OutsideRequest, Tab};

commands! { PROGRAM "Program" {
    OVERVIEW "overview" ["0"] "findings about the machine, the worst first"
        says "triage why slow problem use utilization saturation errors disk memory network" => Plain(|app| app.show_overview());
    TOP "top" ["1"] "the table"
        says "functions hot cpu busy slow" => Plain(|app| app.model.frame.tab = Tab::Top);
    FLAME "flame" ["2"] "the flame graph"
        says "flamegraph graph icicle stacks" => Plain(|app| app.model.show_flame());
    TIME "time" ["3"] "the map of time: a column per second, offsets within it downwards"
        says "heatmap history past when map"
        => Plain(|app| app.show_time());
    CPUS "cpu-screen" ["4"] "the CPUs and their softirqs"
        says "mpstat cores irq interrupt softirq throttle quota network" => Plain(|app| app.views.cpus.show(&mut app.model));
    EVENTS "events" ["5"] "the measured events, and those available" => Plain(|app| app.model.show_events());
    UNITS "units" ["6"] "the analysis units"
        says "measure" => Plain(|app| app.model.frame.tab = Tab::Units);
    TIMELINE "timeline" ["T"] "show or hide the timeline above table and flame graph"
        => Plain(|app| app.model.frame.timeline = !app.model.frame.timeline);
    FINDING "finding" ["!"] "go to the message's subject: an anomalous CPU, code without names"
        says "why problem wrong anomaly throttle quota slow"
        => Plain(|app| app.go_to_banner());
    DISMISS "dismiss" ["~"] "dismiss the message" => Plain(|app| app.model.dismiss());
    THRESHOLD "threshold" [] "set the points above other CPUs from which a CPU is an anomaly" (Argument::named("points"))
        => Given(|app, text| app.views.cpus.set_threshold(&mut app.model, text));
    HELP "help" ["?", "h", "f1"] "show this help"
        says "how manual man keys" => Plain(|app| app.model.frame.popups.push(Popup::Help(Searched::default())));
    PALETTE "palette" [":"] "find and run any command" => Plain(|app| app.model.frame.popups.push(Popup::Palette(app.model.palette())));
    THEME "theme" [] "choose other colours, with a preview"
        says "color dark light" (Argument::of("name", "theme", ArgumentKind::Theme))
        => Given(|app, name| app.model.set_theme(name));
    FRAME_LIMIT "frame-limit" [] "limit frames to two per second for slow links, or end the limit" => Plain(|app| {
        app.model.context.slow = !app.model.context.slow;
        app.model.say(if app.model.context.slow { "at most two frames per second" } else { "the frame limit is off" });
    });
    BYTES "bytes" [] "show how many bytes per second the screen takes" => Plain(|app| {
        app.model.context.bytes_a_second = if app.model.context.bytes_a_second.is_some() { None } else { Some(0.0) };
    });
    MOUSE "mouse" ["alt-m"] "leave the mouse to the terminal, or capture it" => Plain(|app| {
        app.model.frame.mouse = !app.model.frame.mouse;
        app.model.effects.push(Effect::Mouse(app.model.frame.mouse));
        app.model.say(if app.model.frame.mouse { "the mouse is captured" } else { "the mouse is left to the terminal" });
    });
    REDRAW "redraw" ["ctrl-l"] "draw the screen again" => Plain(|app| app.model.effects.push(Effect::Redraw));
    SUSPEND "suspend" ["ctrl-z"] "stop the program until fg" => Plain(|app| app.model.effects.push(Effect::Outside(OutsideRequest::Suspend)));
    QUIT "quit" ["q", "ctrl-c"] "quit"
        says "exit close" => Plain(|app| app.model.effects.push(Effect::Quit));
}}
