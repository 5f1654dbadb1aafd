#include "model/ggml_log.h"

#include <llama.h>

#include <mutex>

namespace pith {

void silence_ggml() {
  static std::once_flag once;
  // libllama passes the callback on to ggml.
  std::call_once(once, [] { llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr); });
}

}  // namespace pith
