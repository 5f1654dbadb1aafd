#pragma once

#include <filesystem>

namespace pith::tools {

/// Where pith keeps what it downloads and measures: PITH_CACHE, else XDG_CACHE_HOME/pith, else
/// ~/.cache/pith.
std::filesystem::path cache_folder();

}  // namespace pith::tools
