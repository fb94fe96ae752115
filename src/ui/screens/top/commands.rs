//! Commands of the table: call chains, columns, order.

use crate::query::{ChainMode, Direction};
use crate::ui::input::action::Action::{Asked, Given, Plain};
use crate::ui::input::action::commands;
use crate::ui::input::command::HintAction::Command;
use crate::ui::input::commands::{general, program};
use crate::ui::input::{Argument, ArgumentKind, Hints};
use crate::ui::popups::Popup;

commands! { CHAINS "Call chains" {
    TOGGLE "toggle" ["enter", "right"] "unfold or fold the line under the cursor" of table => Plain(|app| app.model.toggle());
    FOLD "fold" ["left"] "fold the line, or go to its parent; without a parent, undo" of table
        => Plain(|app| {
            if !app.model.fold() {
                app.undo();
            }
        });
    EXPAND "expand" ["="] "unfold or fold the whole row" of table => Plain(|app| app.model.toggle_row());
    EXPAND_ALL "expand-all" ["E"] "unfold all rows, or fold them" of table => Plain(|app| {
        app.model.selection.rows.expand_all = !app.model.selection.rows.expand_all && app.model.selection.rows.toggled.is_empty();
        app.model.selection.rows.toggled.clear();
    });
    DIRECTION "direction" ["D"] "follow callees or callers" of table => Plain(|app| {
        let callers = app.model.selection.rows.direction == Direction::Callers;
        app.model.selection.rows.direction = if callers { Direction::Callees } else { Direction::Callers };
        app.model.say(if callers { "call chains lead to callees" } else { "call chains lead to callers" });
    });
    ANNOTATE "annotate" ["A"] "show a function's instructions and source lines"
        says "assembly disassemble code line"
        (Argument::named("function")) => Given(|app, name| app.annotate(name));
    NAMES "names" ["."] "show C++ and Rust names short, like perf, or in full"
        => Plain(|app| app.model.next_form());
    INLINED "inlined" ["J"] "show inlined functions as separate frames, or not"
        => Plain(|app| app.model.toggle_inlined());
    FRACTAL "fractal" ["%"] "show percentages of everything, or of the calling entry" of table => Plain(|app| {
        let of_all = app.model.selection.rows.chain_mode != ChainMode::Graph;
        app.model.selection.rows.chain_mode = if of_all { ChainMode::Graph } else { ChainMode::Fractal };
        app.model.say(match of_all {
            true => "percentages in call chains are of everything",
            false => "percentages in call chains are of the entry above",
        });
    });
    LIMIT "limit" ["L"] "hide rows below a share" (Argument::of("percent", "hide below %", ArgumentKind::Text)) of table
        => Asked(|app, text| app.model.set_limit(&text), |model| match model.selection.rows.limit {
            0.0 => String::new(),
            limit => limit.to_string(),
        });
}}

commands! { TABLE "Table" {
    SPLIT "split" ["tab"] "show processes, or split functions by comm, process, thread, CPU, container, pod, cgroup"
        says "process thread container pid"
        => Plain(|app| app.model.split(1));
    SPLIT_BACK "split-back" ["backtab"] "show the previous of these" => Plain(|app| app.model.split(-1));
    COLUMNS "columns" ["C"] "choose columns" of table => Plain(|app| app.model.frame.popups.push(Popup::Columns { cursor: 0 }));
    SORT "sort" [] "group rows by these keys, e.g. comm,dso,sym" (Argument::named("keys"))
        => Given(|app, text| app.model.sort(text));
    ORDER_RIGHT "order-right" [">", "s"] "sort by the next column" of table => Plain(|app| app.model.move_order(1));
    ORDER_LEFT "order-left" ["<"] "sort by the previous column" of table => Plain(|app| app.model.move_order(-1));
    REVERSE "reverse" ["R"] "reverse the order" of table => Plain(|app| {
        app.model.selection.rows.reversed = !app.model.selection.rows.reversed;
        app.model.top.home();
    });
    CHILDREN "children" ["X"] "count functions with or without their callees" of table
        => Plain(|app| app.model.toggle_children());
    NEXT_EVENT "next-event" ["}"] "show the next event" => Plain(|app| app.model.move_event(1));
    PREVIOUS_EVENT "previous-event" ["{"] "show the previous event" => Plain(|app| app.model.move_event(-1));
}}

pub(crate) static FOOTER: Hints = &[
    (Command(&TOGGLE), "callers"),
    (Command(&ORDER_RIGHT), "order"),
    (Command(&SPLIT), "split"),
    (Command(&general::WALL), ""),
    (Command(&general::FILTER), "filter"),
    (Command(&program::FLAME), "flame"),
    (Command(&general::FREEZE), "freeze"),
];
