//! Commands of the flame graph, and its overrides of common commands.

use crate::query::ColumnKey;
use crate::query::flame::Edit;
use crate::query::flame::layout::FlameDirection;
use crate::ui::input::action::Action::{Given, Plain};
use crate::ui::input::action::{Actions, commands};
use crate::ui::input::command::HintAction::{Chord, Command};
use crate::ui::input::commands::general;
use crate::ui::input::{Argument, ArgumentKind, Hints};
use crate::ui::screens::top;

commands! { GROUP "Flame graph" on Flame {
    LEFT "flame-left" ["left"] "go to the sibling on the left"
        => Plain(|app| app.views.flame.in_flame(&app.model, |view, flame| view.sideways(flame, -1)));
    RIGHT "flame-right" ["right"] "go to the sibling on the right"
        => Plain(|app| app.views.flame.in_flame(&app.model, |view, flame| view.sideways(flame, 1)));
    TASKS "flame-tasks" ["tab"] "first row: programs, processes, containers, or all tasks together"
        => Plain(|app| app.views.flame.next_ground(&mut app.model));
    ZOOM "flame-zoom" ["enter"] "zoom into the frame under the cursor"
        => Plain(|app| app.views.flame.zoom(&mut app.model));
    FLIP "flip" ["e u"] "put the root at the bottom, or on top"
        => Plain(|app| app.views.flame.icicle = !app.views.flame.icicle);
    LEAVES "leaves" ["R"] "start from the leaves, or from the root" => Plain(|app| app.views.flame.change(|place| {
        place.way = if place.way == FlameDirection::Leaves { FlameDirection::Roots } else { FlameDirection::Leaves };
        place.zoom.clear();
    }));
    AROUND "around" ["w"] "show callers above and callees below a function" (Argument::of("regex", "around", ArgumentKind::Pattern))
        => Given(|app, text| app.views.flame.around(&mut app.model, text));
    MARK_ALL "mark-all" ["*"] "mark the function under the cursor everywhere" => Plain(|app| app.views.flame.mark(&app.model));
    FOCUS "focus" ["e b"] "begin stacks at a function" (Argument::named("name"))
        => Given(|app, name| app.views.flame.edit_by(&mut app.model, name, |block| &block.name, Edit::Focus));
    DROP "drop" ["x"] "exclude samples whose stack contains a function" (Argument::named("name"))
        => Given(|app, name| app.views.flame.exclude(&mut app.model, name));
    MERGE "merge" ["e m"] "count a function for its caller" (Argument::named("name"))
        => Given(|app, name| app.views.flame.edit_by(&mut app.model, name, |block| &block.name, Edit::MergeFunction));
    MERGE_DSO "merge-dso" ["e d"] "count all functions of a DSO for their callers" (Argument::named("name"))
        => Given(|app, name| app.views.flame.edit_by(&mut app.model, name, |block| &block.dso, Edit::MergeDso));
    RECURSION "recursion" ["e r"] "merge recursive calls into one frame"
        => Plain(|app| app.views.flame.edit(Edit::CollapseRecursion));
    BY_DSO "by-dso" ["e o"] "show DSOs instead of functions" => Plain(|app| app.views.flame.edit(Edit::ByDso));
    CHAINS "chains" ["e c"] "merge chains without a branch into one frame"
        => Plain(|app| app.views.flame.edit(Edit::CollapseChains));
    BY_IPC "by-ipc" ["e i"] "colour by instructions per cycle, if both events are sampled"
        => Plain(|app| app.views.flame.turn_ipc(&mut app.model));
    OFF_CPU "off-cpu" ["e w"] "put time on and off the CPUs into one graph, if switches are recorded"
        => Plain(|app| app.model.toggle_off_cpu());
}}

pub(crate) static HERE: Actions = &[
    (&general::SEARCH, Given(|app, text| app.views.flame.search(&mut app.model, text))),
    (&general::NEXT, Plain(|app| app.views.flame.in_flame(&app.model, |view, flame| view.next_found(flame, 1)))),
    (&general::PREVIOUS, Plain(|app| app.views.flame.in_flame(&app.model, |view, flame| view.next_found(flame, -1)))),
    (&general::ZOOM_DSO, Plain(|app| app.views.flame.filter_by(&mut app.model, ColumnKey::Dso))),
    (&general::ZOOM_SYMBOL, Plain(|app| app.views.flame.filter_by(&mut app.model, ColumnKey::Sym))),
    (&general::ZOOM_COMM, Plain(|app| app.views.flame.filter_by(&mut app.model, ColumnKey::Comm))),
    (&top::commands::FRACTAL, Plain(|app| app.views.flame.turn_percent(&mut app.model))),
];

pub(crate) static FOOTER: Hints = &[
    (Command(&ZOOM), "zoom"),
    (Command(&general::WALL), ""),
    (Command(&general::SEARCH), "search"),
    (Command(&AROUND), "around"),
    (Command(&DROP), "exclude"),
    (Chord("e"), "edit stacks"),
    (Command(&LEAVES), "from leaves"),
];
