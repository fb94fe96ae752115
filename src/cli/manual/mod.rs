//! The manual: pages in Markdown and their conversion for man(1).

pub(crate) mod schema;

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// All pages. The first line of a page has its name, its section and its description. A page without a description is
/// appended to the page of the command of that name.
const PAGES: &[&str] = &[
    include_str!("main.md"),
    include_str!("record.md"),
    include_str!("open.md"),
    include_str!("cpus.md"),
    include_str!("diff.md"),
    include_str!("digest.md"),
    include_str!("mcp.md"),
    include_str!("probe.md"),
    include_str!("screens.md"),
    include_str!("filter.md"),
    include_str!("containers.md"),
    include_str!("names.md"),
    include_str!("units.md"),
    include_str!("json.md"),
    include_str!("config.md"),
];

/// A blank date: an empty argument would be dropped, and the next one taken for the date.
pub(crate) const NO_DATE: &str = " ";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) name: &'static str,
    pub(crate) section: &'static str,
    /// `None` for a page that belongs to a command.
    pub(crate) about: Option<&'static str>,
    text: &'static str,
}

pub(crate) fn pages() -> impl Iterator<Item = Page> {
    PAGES.iter().filter_map(|page| {
        let (head, text) = page.strip_prefix("# ")?.split_once('\n')?;
        let (title, about) = head.split_once(" - ").map_or((head, None), |(title, about)| (title, Some(about)));
        let (name, section) = title.strip_suffix(')')?.split_once('(')?;
        Some(Page { name, section, about, text })
    })
}

/// Returns the page of a topic; the prefix `perfprof-tui-` and the section (`config.5`) are optional.
pub(crate) fn topic(name: &str) -> Option<Page> {
    let name = name.trim_start_matches("perfprof-tui-");
    let own = |page: &Page| {
        let rest = name.strip_prefix(page.short());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.') == Some(page.section))
    };
    pages().find(|page| page.about.is_some() && own(page))
}

impl Page {
    /// Returns the name without the prefix `perfprof-tui-`.
    pub(crate) fn short(&self) -> &'static str {
        self.name.trim_start_matches("perfprof-tui-")
    }

    pub(crate) fn roff(&self) -> String {
        let mut roff = Roff::new();
        let version = concat!("perfprof-tui ", env!("CARGO_PKG_VERSION"));
        roff.control("TH", [self.name, self.section, NO_DATE, version, "perfprof-tui"]);
        roff.control("SH", ["NAME"]);
        roff.text([roman(format!("{} - {}", self.name, self.about.unwrap_or_default()))]);
        if !self.text.trim_start().starts_with("## ") {
            roff.control("SH", ["DESCRIPTION"]);
        }
        self.write(&mut roff);
        rendered(&roff)
    }

    pub(crate) fn text(&self) -> String {
        format!("{}({}) - {}\n{}", self.name, self.section, self.about.unwrap_or_default(), self.text)
    }

    pub(crate) fn write(&self, roff: &mut Roff) {
        let mut writer =
            RoffWriter { roff, line: Vec::new(), fonts: Vec::new(), code: false, picture: false, table: None };
        Parser::new_ext(self.text, Options::ENABLE_TABLES).for_each(|event| writer.take(event));
    }
}

pub(crate) fn rendered(roff: &Roff) -> String {
    literal(&roff.render())
}

/// Escapes three characters that man(1) would replace by typographic ones, so that commands can be copied.
pub(crate) fn literal(roff: &str) -> String {
    roff.replace('~', r"\(ti").replace('^', r"\(ha").replace('`', r"\(ga")
}

/// Appends literal text, such as examples and their output.
pub(crate) fn verbatim(roff: &mut Roff, text: &str) {
    roff.control("EX", []);
    as_it_stands(roff, text);
    roff.control("EE", []);
}

fn as_it_stands(roff: &mut Roff, text: &str) {
    for line in text.lines() {
        roff.text([roman(if line.is_empty() { " " } else { line })]);
    }
}

pub(crate) fn entry(roff: &mut Roff, word: Vec<Inline>, meaning: Vec<Inline>) {
    roff.control("TP", []).text(word).text(meaning);
}

/// A table while it is read: its headings and the cells of the current row.
#[derive(Default)]
struct ManualTable {
    head: Vec<String>,
    cells: Vec<Vec<Inline>>,
}

struct RoffWriter<'a> {
    roff: &'a mut Roff,
    line: Vec<Inline>,
    fonts: Vec<fn(String) -> Inline>,
    code: bool,
    /// True within the title of a picture, which is skipped.
    picture: bool,
    table: Option<ManualTable>,
}

impl RoffWriter<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => as_it_stands(self.roff, &text),
            Event::Text(_) | Event::Code(_) | Event::SoftBreak if self.picture => {}
            Event::Text(text) => self.word(text.into_string()),
            Event::Code(code) => self.line.push(bold(code.into_string())),
            Event::SoftBreak | Event::HardBreak => self.word(" ".to_owned()),
            _ => {}
        }
    }

    fn word(&mut self, text: String) {
        let font = self.fonts.last().copied().unwrap_or(roman);
        self.line.push(font(text));
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                self.roff.control("PP", []);
            }
            Tag::CodeBlock(_) => {
                self.code = true;
                self.roff.control("PP", []).control("RS", ["2"]).control("EX", []);
            }
            Tag::Item => {
                self.roff.control("IP", [r"\(bu", "2"]);
            }
            Tag::Strong | Tag::Link { .. } => self.fonts.push(bold),
            Tag::Emphasis => self.fonts.push(italic),
            Tag::Table(_) => self.table = Some(ManualTable::default()),
            Tag::Image { .. } => self.picture = true,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let title = plain(&std::mem::take(&mut self.line));
                match level {
                    HeadingLevel::H2 => self.roff.control("SH", [title.to_uppercase().as_str()]),
                    _ => self.roff.control("SS", [title.as_str()]),
                };
            }
            TagEnd::Paragraph | TagEnd::Item if !self.line.is_empty() => {
                let line = std::mem::take(&mut self.line);
                self.roff.text(line);
            }
            TagEnd::CodeBlock => {
                self.code = false;
                self.roff.control("EE", []).control("RE", []);
            }
            TagEnd::Strong | TagEnd::Link | TagEnd::Emphasis => {
                self.fonts.pop();
            }
            TagEnd::Image => self.picture = false,
            TagEnd::TableCell => {
                if let Some(table) = &mut self.table {
                    table.cells.push(std::mem::take(&mut self.line));
                }
            }
            TagEnd::TableHead => {
                if let Some(table) = &mut self.table {
                    table.head = table.cells.drain(..).map(|cell| plain(&cell)).collect();
                }
            }
            TagEnd::TableRow => self.row(),
            TagEnd::Table => self.table = None,
            _ => {}
        }
    }

    /// Writes a table row: the first cell, and below it the others, with their headings if there are several.
    fn row(&mut self) {
        let Some(table) = &mut self.table else { return };
        let mut cells = std::mem::take(&mut table.cells).into_iter();
        let first = cells.next().unwrap_or_default();
        let several = cells.len() > 1;
        let mut meaning = Vec::new();
        for (cell, head) in cells.zip(table.head.iter().skip(1)).filter(|(cell, _)| !cell.is_empty()) {
            if !meaning.is_empty() {
                meaning.push(roman("; "));
            }
            if several && !head.is_empty() {
                meaning.push(italic(format!("{head}: ")));
            }
            meaning.extend(cell);
        }
        entry(self.roff, first, meaning);
    }
}

fn plain(line: &[Inline]) -> String {
    let text = |part: &Inline| match part {
        Inline::Roman(text) | Inline::Bold(text) | Inline::Italic(text) => text.clone(),
        Inline::LineBreak => " ".to_owned(),
    };
    line.iter().map(text).collect()
}
