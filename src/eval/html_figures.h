#pragma once

#include <string>

#include "eval/html_data.h"

namespace pith {

/// The page's figures, each with its words; empty where there is nothing to show.
std::string quality_figures(const PageData& data);
std::string kind_figures(const PageData& data);
std::string position_figure(const PageData& data);
std::string cost_figures(const PageData& data);
std::string kept_figures(const PageData& data);

}  // namespace pith
