#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace pith {

/// Offset of the first byte of `text` that does not begin a well-formed UTF-8 character (RFC 3629:
/// no overlong forms, no surrogates, nothing beyond U+10FFFF); nothing where all is well.
std::optional<size_t> find_invalid_utf8(std::string_view text);

}  // namespace pith
