#pragma once

#include <string>

#include "model/gguf_file.h"

namespace pith {

/// What a model file is known by, 16 hex digits: FNV-1a of 64 bits over its size, everything before
/// the weights (key-values, names, types and shapes of the tensors), and 256 samples of 4 KiB
/// spread evenly over the weights. Milliseconds for a file of any size.
std::string file_hash(const GgufFile& file);

}  // namespace pith
