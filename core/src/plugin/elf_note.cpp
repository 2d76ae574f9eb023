#include "plugin/elf_note.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "plugin/foreign_text.hpp"

namespace dllm {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kOurMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kOurMachine = EM_AARCH64;
#else
#error "name this machine's ELF number here"
#endif

// More than any real plugin needs, so that a lying header cannot make us read for long.
constexpr std::size_t kMaxProgramHeaders = 512;
constexpr std::uint64_t kMaxNoteBytes = 64 << 10;

std::string errno_text(int code) { return std::generic_category().message(code); }

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "x86 (32-bit)";
    case EM_X86_64:
      return "x86_64";
    case EM_ARM:
      return "arm (32-bit)";
    case EM_AARCH64:
      return "aarch64";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

Refusal damaged(std::string fact) {
  return {"a damaged ELF file: " + std::move(fact), "copy or build the file again"};
}

Refusal judge_start(const PluginFile& file, Elf64_Ehdr& header) {
  unsigned char ident[EI_NIDENT] = {};
  const std::size_t head = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), 16));
  if (!file.read(0, ident, head)) return damaged("its first bytes cannot be read");
  if (head < SELFMAG || std::memcmp(ident, ELFMAG, SELFMAG) != 0) {
    const std::string_view start(reinterpret_cast<const char*>(ident),
                                 std::min<std::size_t>(head, SELFMAG));
    return {fmt::format("not an ELF file (it starts with '{}')", printable(start)),
            "build it as a shared object, or move it out of the plugin folder"};
  }
  if (head < EI_NIDENT) return damaged(fmt::format("it ends after {} bytes", file.size()));
  const char* bits = ident[EI_CLASS] == ELFCLASS64 ? "64" : "32";
  const char* order = ident[EI_DATA] == ELFDATA2LSB ? "little" : "big";
  if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB) {
    return {fmt::format("a {}-bit {}-endian ELF file, this runtime loads 64-bit little-endian ones "
                        "for {}",
                        bits, order, machine_name(kOurMachine)),
            "rebuild it for this machine"};
  }
  if (!file.read(0, &header, sizeof header)) {
    return damaged(
        fmt::format("its header needs {} bytes, the file has {}", sizeof header, file.size()));
  }
  if (header.e_machine != kOurMachine) {
    return {fmt::format("built for {}, this runtime is {}", machine_name(header.e_machine),
                        machine_name(kOurMachine)),
            "rebuild it for this machine"};
  }
  if (header.e_type != ET_DYN) {
    return {fmt::format("an ELF file of type {}, not a shared object (type {})", header.e_type,
                        static_cast<int>(ET_DYN)),
            "link it as a shared object (dllm_add_plugin does)"};
  }
  return {};
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Walks one segment: namesz, descsz, type, then name and payload, each padded to `alignment`.
void collect(const std::vector<std::byte>& segment, std::uint64_t alignment, std::string_view owner,
             std::uint32_t type, std::vector<std::vector<std::byte>>& out) {
  std::uint64_t at = 0;
  Elf64_Nhdr note;
  while (at + sizeof note <= segment.size()) {
    std::memcpy(&note, segment.data() + at, sizeof note);
    const std::uint64_t name_at = at + sizeof note;
    const std::uint64_t payload_at = round_up(name_at + note.n_namesz, alignment);
    const std::uint64_t end = payload_at + note.n_descsz;  // sums of 32-bit sizes: cannot overflow
    if (end > segment.size()) return;
    const auto* name = reinterpret_cast<const char*>(segment.data() + name_at);
    if (note.n_type == type && note.n_namesz == owner.size() + 1 && name[owner.size()] == '\0' &&
        std::string_view(name, owner.size()) == owner) {
      out.emplace_back(segment.begin() + static_cast<std::ptrdiff_t>(payload_at),
                       segment.begin() + static_cast<std::ptrdiff_t>(end));
    }
    at = round_up(end, alignment);
  }
}

}  // namespace

PluginFile::~PluginFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Refusal PluginFile::open(const std::filesystem::path& path) {
  constexpr const char* kMove = "move it out of the plugin folder";
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    const int code = errno;
    std::error_code ignored;
    if (code == ENOENT && std::filesystem::is_symlink(path, ignored)) {
      return {fmt::format("a link to '{}', which does not exist",
                          std::filesystem::read_symlink(path, ignored).string()),
              "correct or remove the link"};
    }
    return {fmt::format("cannot be examined: {}", errno_text(code)),
            "check the path and its rights"};
  }
  if (!S_ISREG(status.st_mode)) {
    return {S_ISDIR(status.st_mode) ? "a folder, not a file" : "not a regular file", kMove};
  }
  // O_NONBLOCK: should it become a pipe between the two calls, opening it must not wait.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    const int code = errno;
    const bool no_files = code == EMFILE || code == ENFILE;
    return {fmt::format("cannot be read: {}", errno_text(code)),
            no_files ? "raise the limit of open files (ulimit -n)" : "check its permissions"};
  }
  // Another file may have come to the place since: what is judged is the one that is open.
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    return {"not a regular file", kMove};
  }
  if (status.st_size == 0) return {"an empty file", "copy or build the file again"};
  size_ = static_cast<std::uint64_t>(status.st_size);
  return {};
}

bool PluginFile::read(std::uint64_t offset, void* out, std::size_t count) const {
  if (offset > size_ || count > size_ - offset) return false;
  auto* at = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, at, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

ElfNotes read_elf_notes(const PluginFile& file, std::string_view owner, std::uint32_t type) {
  ElfNotes notes;
  Elf64_Ehdr header{};
  notes.refusal = judge_start(file, header);
  if (!notes.refusal.fact.empty()) return notes;
  const std::size_t count = header.e_phnum;
  if (count == 0) return notes;
  if (header.e_phentsize != sizeof(Elf64_Phdr) || count > kMaxProgramHeaders) {
    notes.refusal = damaged(fmt::format("{} program headers of {} bytes, they have {}", count,
                                        header.e_phentsize, sizeof(Elf64_Phdr)));
    return notes;
  }
  std::vector<Elf64_Phdr> segments(count);
  if (!file.read(header.e_phoff, segments.data(), count * sizeof(Elf64_Phdr))) {
    notes.refusal = damaged(fmt::format("{} program headers at byte {}, the file has {} bytes",
                                        count, header.e_phoff, file.size()));
    return notes;
  }
  for (const Elf64_Phdr& segment : segments) {
    // The loader maps these without looking: a page past the file's end would end the program.
    if (segment.p_type == PT_LOAD &&
        (segment.p_offset > file.size() || segment.p_filesz > file.size() - segment.p_offset)) {
      notes.refusal = damaged(fmt::format("a segment of {} bytes at byte {}, the file has {} bytes",
                                          segment.p_filesz, segment.p_offset, file.size()));
      return notes;
    }
    if (segment.p_type != PT_NOTE) continue;
    std::vector<std::byte> bytes;
    const bool plausible = segment.p_filesz <= std::min(file.size(), kMaxNoteBytes);
    if (plausible) bytes.resize(static_cast<std::size_t>(segment.p_filesz));
    if (!plausible || !file.read(segment.p_offset, bytes.data(), bytes.size())) {
      notes.refusal = damaged(fmt::format("a note of {} bytes at byte {}, the file has {} bytes",
                                          segment.p_filesz, segment.p_offset, file.size()));
      return notes;
    }
    // gABI says 8 for 64-bit files, the world uses 4; only segments aligned to 8 are padded so.
    collect(bytes, segment.p_align == 8 ? 8 : 4, owner, type, notes.payloads);
  }
  return notes;
}

}  // namespace dllm
