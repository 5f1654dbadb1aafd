#pragma once

#include <string>

namespace pith::test {

/// Path of the model that the set-up fetched; fails the running test where it is missing.
std::string packaged_model();

/// Text of the GPL-3 as every Debian system has it; fails the running test where it is missing.
std::string long_text();

}  // namespace pith::test
