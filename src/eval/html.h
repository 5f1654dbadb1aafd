#pragma once

#include <string>

#include "eval/report.h"

namespace pith {

/// The comparison as one page: the verdict in words, charts, what each policy keeps, all figures,
/// and how they came about. Self-contained: no script, nothing fetched, light and dark.
std::string to_html(const FidelityReport& report);

}  // namespace pith
