#include "zeroshard/tools/launch/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <string_view>

#include "absl/strings/escaping.h"

namespace zeroshard::tools {
namespace {

constexpr size_t Padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

// The description of the note that holds the id, among the notes in `notes`; empty where none does.
std::string_view FindId(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    const size_t name = sizeof(header), description = name + Padded(header.n_namesz);
    const size_t end = description + Padded(header.n_descsz);
    if (end > notes.size()) break;
    const bool gnu = notes.substr(name, header.n_namesz) == std::string_view(ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU));
    if (gnu && header.n_type == NT_GNU_BUILD_ID) return notes.substr(description, header.n_descsz);
    notes.remove_prefix(end);
  }
  return {};
}

std::string IdOf(const dl_phdr_info& object) {
  std::string id = "unknown";
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* const begin = reinterpret_cast<const char*>(object.dlpi_addr + part.p_vaddr);
    const std::string_view found = FindId({begin, part.p_memsz});
    if (!found.empty()) id = absl::BytesToHexString(absl::string_view(found.data(), found.size()));
  }
  return id;
}

// Whether it is a shared object of ours (cuda_library.h).
bool IsOurs(std::string_view path) { return path.substr(path.rfind('/') + 1).starts_with("libzeroshard_cuda"); }

// Called for the program first, then for its libraries.
int ReadObject(dl_phdr_info* object, size_t /*size*/, void* result) {
  std::string& id = *static_cast<std::string*>(result);
  if (id.empty()) {
    id = IdOf(*object);
  } else if (IsOurs(object->dlpi_name)) {
    id += " with " + IdOf(*object);
  }
  return 0;
}

}  // namespace

std::string BuildId() {
  std::string id;
  dl_iterate_phdr(&ReadObject, &id);
  return id;
}

}  // namespace zeroshard::tools
