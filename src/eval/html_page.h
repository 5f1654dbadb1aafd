#pragma once

#include <string>
#include <vector>

#include "eval/machine.h"

namespace pith {

/// Parts that every page has. Texts are escaped, what is called html is not.

/// From the doctype to the opened body: self-contained, no script, nothing fetched.
std::string page_head(const std::string& title);

std::string html_section(const std::string& heading, const std::string& words);
std::string html_figure(const std::string& heading, const std::string& chart_html,
                        const std::string& caption);

/// Cells of a table's row.
std::string html_cells(const std::vector<std::string>& texts);

/// A table in a box that scrolls by itself.
std::string html_table(const std::string& label, const std::vector<std::string>& heading,
                       const std::string& rows_html);

/// An entry of a definition list; empty where it says nothing.
std::string html_entry(const std::string& name, const std::string& html);

/// The last section: where the figures come from. `more_html` are entries.
std::string how_measured(const std::string& command, const std::string& model,
                         const Machine& machine, const std::string& more_html,
                         const std::vector<std::string>& notes);

/// The last part of a path.
std::string file_name(const std::string& path);

}  // namespace pith
