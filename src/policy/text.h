#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pith {

/// `text` in single quotes for an error message: one line, printable, cut to a readable length.
std::string quote(std::string_view text);

/// The name with the smallest edit distance to `word`; the first where several are equally near.
/// `names` is not empty.
std::string nearest(std::string_view word, std::span<const std::string> names);

/// `value` in the fewest digits that parse to the same number.
std::string number_text(double value);

}  // namespace pith
