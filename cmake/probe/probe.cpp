#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>

// One symbol of each part that pith builds on, the newest that it needs among them.
int main() {
  void* used[] = {reinterpret_cast<void*>(&ggml_set_rows),
                  reinterpret_cast<void*>(&gguf_init_from_file),
                  reinterpret_cast<void*>(&ggml_backend_load_all),
                  reinterpret_cast<void*>(&llama_model_load_from_file)};
  return used[0] == nullptr;
}
