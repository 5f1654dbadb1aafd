#pragma once

#include <string>

#include "pith/pith.hpp"

namespace pith::tools {

/// The receipt in a few lines for people.
std::string receipt_text(const Receipt& receipt);

}  // namespace pith::tools
