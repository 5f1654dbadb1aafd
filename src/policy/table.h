#pragma once

#include <string>

namespace pith {

/// The registry as a Markdown section: a table of the policies and one of the budget rules.
std::string policies_markdown();

/// The registry for a terminal: for each policy its paper, phases, budget rule, knobs with defaults
/// and allowed values.
std::string policies_text();

}  // namespace pith
