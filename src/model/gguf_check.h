#pragma once

#include <cstddef>
#include <span>

namespace pith {

/// Walks the header of an untrusted GGUF file (versions 2 and 3, little-endian) and checks every
/// count, length, type, shape and offset against the file's size, so that ggml, which trusts some
/// of them, sees only files that hold together. Reads the header only, not the tensors' data.
/// Throws Error(bad_file) naming what is off and at which byte, Error(unsupported) for a version or
/// a tensor type that pith does not know.
void check_gguf(std::span<const std::byte> file);

}  // namespace pith
