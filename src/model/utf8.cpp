#include "model/utf8.h"

#include <cstdint>

namespace pith {
namespace {

/// What a lead byte promises: characters of `length` bytes, the second of them in [low, high].
struct Lead {
  uint8_t length, low, high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

bool well_formed(std::string_view text, size_t at, Lead lead) {
  if (lead.length == 0 || text.size() - at < lead.length) return false;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = uint8_t(text[at + i]);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
    if (!fits) return false;
  }
  return true;
}

}  // namespace

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Lead lead = lead_of(uint8_t(text[at]));
    if (!well_formed(text, at, lead)) return at;
    at += lead.length;
  }
  return std::nullopt;
}

}  // namespace pith
