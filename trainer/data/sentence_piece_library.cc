#include "zeroshard/trainer/data/sentence_piece_library.h"

#include <dlfcn.h>

namespace zeroshard::trainer {
namespace {

// As the compiler names them. What a function returns by value has its place in the first argument.
constexpr char kProcessor[] = "_ZN13sentencepiece22SentencePieceProcessorC1Ev";
constexpr char kStatus[] = "_ZN13sentencepiece4util6StatusC1Ev";
constexpr char kStatusEnd[] = "_ZN13sentencepiece4util6StatusD1Ev";
constexpr char kStatusToString[] = "_ZNK13sentencepiece4util6Status8ToStringB5cxx11Ev";
constexpr char kTrain[] =
    "_ZN13sentencepiece20SentencePieceTrainer5TrainERKSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEES7_"
    "St4hashIS7_ESt8equal_toIS7_ESaISt4pairIKS7_S7_EEEPNS_16SentenceIteratorEPS7_";

struct Functions {
  void (*processor)(void* self) = nullptr;
  void (*status)(void* self) = nullptr;
  void (*status_end)(void* self) = nullptr;
  void* (*status_to_string)(void* text, const void* self) = nullptr;
  void* (*train)(void* status, const void* options, void* lines, void* model) = nullptr;
  std::string error;
};

template <class Function>
void Find(void* library, const char* name, Function& function, std::string& error) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) error = dlerror();
}

Functions Open() {
  Functions f;
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
  void* const processor = dlopen("libsentencepiece.so.0", kFlags);
  void* const trainer = processor == nullptr ? nullptr : dlopen("libsentencepiece_train.so.0", kFlags);
  if (trainer == nullptr) {
    f.error = dlerror();
    return f;
  }
  Find(processor, kProcessor, f.processor, f.error);
  Find(processor, kStatus, f.status, f.error);
  Find(processor, kStatusEnd, f.status_end, f.error);
  Find(processor, kStatusToString, f.status_to_string, f.error);
  Find(trainer, kTrain, f.train, f.error);
  return f;
}

const Functions& Library() {
  static const Functions& functions = *new Functions(Open());  // Libraries stay open.
  return functions;
}

}  // namespace

std::string OpenSentencePiece() { return Library().error; }

}  // namespace zeroshard::trainer

// What sentence_piece.cc links to, by the names that the headers give it.
extern "C" {
void ZsNewProcessor(void* self) __asm__("_ZN13sentencepiece22SentencePieceProcessorC1Ev");
void ZsNewStatus(void* self) __asm__("_ZN13sentencepiece4util6StatusC1Ev");
void ZsEndStatus(void* self) __asm__("_ZN13sentencepiece4util6StatusD1Ev");
void* ZsStatusToString(void* text, const void* self) __asm__("_ZNK13sentencepiece4util6Status8ToStringB5cxx11Ev");
void* ZsTrain(void* status, const void* options, void* lines, void* model) __asm__(
    "_ZN13sentencepiece20SentencePieceTrainer5TrainERKSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEES7_"
    "St4hashIS7_ESt8equal_toIS7_ESaISt4pairIKS7_S7_EEEPNS_16SentenceIteratorEPS7_");

void ZsNewProcessor(void* self) { zeroshard::trainer::Library().processor(self); }
void ZsNewStatus(void* self) { zeroshard::trainer::Library().status(self); }
void ZsEndStatus(void* self) { zeroshard::trainer::Library().status_end(self); }
void* ZsStatusToString(void* text, const void* self) { return zeroshard::trainer::Library().status_to_string(text, self); }
void* ZsTrain(void* status, const void* options, void* lines, void* model) {
  return zeroshard::trainer::Library().train(status, options, lines, model);
}
}
