#pragma once

#include <string>
#include <string_view>

namespace pith::tools {

/// Puts the bytes of tokens together to whole UTF-8 characters.
class Utf8Stream {
 public:
  /// Takes more bytes and returns those that end complete characters.
  std::string push(std::string_view bytes);
  /// What is left of an unfinished character, as U+FFFD.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace pith::tools
