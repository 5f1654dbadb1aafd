#pragma once

#include <string>

namespace pith::tools {

/// All of a text file, or of standard input for "-". Throws Error(io) where it cannot be read and
/// Error(bad_file) where it is empty, over 256 MiB or not UTF-8.
std::string read_text(const std::string& path);

}  // namespace pith::tools
