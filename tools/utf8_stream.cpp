#include "utf8_stream.h"

#include <algorithm>

namespace pith::tools {
namespace {

/// Bytes that a character starting with `lead` takes; 1 for a byte that starts none.
size_t character_length(unsigned char lead) {
  if (lead >= 0xF0 && lead < 0xF8) return 4;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xC0 && lead < 0xE0) return 2;
  return 1;
}

/// Bytes at the end of `text` that begin a character without ending it.
size_t unfinished(std::string_view text) {
  const size_t longest = std::min<size_t>(text.size(), 3);
  for (size_t back = 1; back <= longest; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    return character_length(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  const size_t complete = pending_.size() - unfinished(pending_);
  std::string out = pending_.substr(0, complete);
  pending_.erase(0, complete);
  return out;
}

std::string Utf8Stream::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return "\xEF\xBF\xBD";
}

}  // namespace pith::tools
