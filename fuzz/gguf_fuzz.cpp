#include <ggml-cpp.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/config.h"
#include "model/ggml_log.h"
#include "model/gguf_check.h"
#include "model/tokenizer_check.h"
#include "pith/error.hpp"

/// Whatever passes the check, ggml must read; the configuration and the tokenizer's check then
/// answer or throw Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pith::silence_ggml();
  try {
    pith::check_gguf(std::as_bytes(std::span(data, size)));
    ggml_context* described = nullptr;
    const gguf_context_ptr header(gguf_init_from_buffer(data, size, {true, &described}));
    const ggml_context_ptr tensors(described);
    if (!header) __builtin_trap();
    pith::read_config(header.get());
    pith::check_tokenizer(header.get());
  } catch (const pith::Error&) {
    return 0;
  }
  return 0;
}
