// SentencePiece's libraries, opened when they are first wanted, with their own names before the program's.
//
// Debian's libsentencepiece brings a Protobuf of its own (3.14) under the names of libprotobuf (3.21). Linked into one program with
// it, the first of the two would be called for both, and the program would end before main. Opened like this, each calls its own.
// What the headers of SentencePiece declare and sentence_piece.cc calls without a virtual table is defined here, and handed on.
//
// Example:
//   if (std::string error = OpenSentencePiece(); !error.empty()) return error;
//   std::unique_ptr<sentencepiece::SentencePieceProcessor> processor(...);
#pragma once

#include <string>

namespace zeroshard::trainer {

// Opens them, once; thread-safe. Nothing of SentencePiece is called before. Gives the system's words where they cannot be opened,
// nothing where they are.
std::string OpenSentencePiece();

}  // namespace zeroshard::trainer
