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

// Called for the program first, then for its libraries.
int ReadProgram(dl_phdr_info* program, size_t /*size*/, void* result) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = program->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* const begin = reinterpret_cast<const char*>(program->dlpi_addr + part.p_vaddr);
    const std::string_view id = FindId({begin, part.p_memsz});
    if (!id.empty()) *static_cast<std::string*>(result) = absl::BytesToHexString(absl::string_view(id.data(), id.size()));
  }
  return 1;
}

}  // namespace

std::string BuildId() {
  std::string id = "unknown";
  dl_iterate_phdr(&ReadProgram, &id);
  return id;
}

}  // namespace zeroshard::tools
