#pragma once

#include <string_view>

namespace pith {

/// The style sheet of the page, with the classes that svg_chart.h names.
std::string_view html_style();

}  // namespace pith
