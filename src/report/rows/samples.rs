//! The samples of a report's rows, and those that its percentages are relative to.

use std::sync::Arc;

use crate::filter::Filter;
use crate::profile::Acc;
use crate::query::tree::stack_marks::StackMarks;
use crate::query::{Aggregate, Data};

/// A selection of an event's samples.
#[derive(Default)]
pub(crate) struct SelectedSamples {
    pub(crate) filter: Option<Arc<Filter>>,
    pub(crate) marks: Option<StackMarks>,
}

impl SelectedSamples {
    /// Returns true if it may leave samples out.
    pub(crate) fn is_filtered(&self) -> bool {
        self.filter.is_some() || self.marks.is_some()
    }

    pub(crate) fn total(&self, data: Data<'_>, event: usize) -> Acc {
        let data = Data { marks: self.marks.as_ref(), ..data };
        let mut total = Acc::default();
        Aggregate::new(event, self.filter.clone()).over(data).each_site(|site, acc| {
            if data.counts(data.profile.sites.all()[site as usize].stack) {
                total += acc;
            }
        });
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;
    use crate::query::tree::stack_marks::StackRules;

    #[test]
    fn a_total_is_of_the_selected_samples() {
        let mut staged = Staged::default();
        for (stack, weight) in [(&["main", "copy"][..], 1), (&["main", "loop"], 2), (&[], 4)] {
            staged.sample(1, 1, stack, weight);
        }
        let total = |samples: &SelectedSamples| samples.total(staged.data(), 0).period;
        assert_eq!(total(&SelectedSamples::default()), 7);
        let filter = Some(Arc::new(Filter::parse("sym == copy").expect("a filter")));
        assert_eq!(total(&SelectedSamples { filter, marks: None }), 1);
        let rules = StackRules { only_named: true, ..StackRules::default() };
        let marks = Some(StackMarks::new(&staged.profile, &rules));
        assert_eq!(total(&SelectedSamples { filter: None, marks }), 3);
    }
}
