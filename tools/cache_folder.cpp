#include "cache_folder.h"

#include <cstdlib>
#include <string>

namespace pith::tools {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const std::string cache = variable("PITH_CACHE"); !cache.empty()) return cache;
  const std::string base = variable("XDG_CACHE_HOME");
  const std::filesystem::path caches = base.empty() ? variable("HOME") + "/.cache" : base;
  return caches / "pith";
}

}  // namespace pith::tools
