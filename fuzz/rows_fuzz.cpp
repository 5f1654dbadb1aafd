#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "eval/rows.h"
#include "pith/error.hpp"

// Any line is a valid row or an Error(bad_file); a valid row keeps what the protocol relies on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kVocab = 1000;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  try {
    const pith::FidelityRow row = pith::parse_row(line, kVocab);
    bool scored = false;
    for (const uint8_t s : row.score) scored |= s == 1;
    bool in_range = true;
    for (const auto* ids : {&row.context, &row.continuation}) {
      for (const int32_t id : *ids) in_range &= id >= 0 && id < kVocab;
    }
    const bool sound = scored && in_range && !row.id.empty() && !row.context.empty() &&
                       row.score.size() == row.continuation.size() &&
                       size_t(row.prompt_tokens) <= row.context.size();
    if (!sound) std::abort();
  } catch (const pith::Error& e) {
    if (e.code() != pith::ErrorCode::bad_file) std::abort();
  }
  return 0;
}
