#pragma once

#include <string>

#include "eval/html_data.h"

namespace pith {

/// Which policy wins, in a sentence.
std::string verdict_text(const PageData& data);

/// The table behind it: a line a budget.
std::string verdict_table(const PageData& data);

}  // namespace pith
