#include "zeroshard/zero/offload/file_queue.h"

#include <cerrno>

namespace zeroshard::zero {

bool EndPiece(FilePiece& piece, int64_t result) {
  Transfer& transfer = *piece.transfer;
  if (result == -EINTR || result == -EAGAIN) return false;
  if (result > 0 && result < piece.bytes) {  // short: the file system had its reasons
    piece.offset += result;
    piece.memory += result;
    piece.bytes -= result;
    return false;
  }
  --transfer.pieces;
  if (result == piece.bytes || transfer.error != 0) return true;
  transfer.error = result < 0 ? static_cast<int>(-result) : kEndOfFile;
  transfer.failed_write = piece.write;
  transfer.failed_offset = piece.offset;
  transfer.failed_bytes = piece.bytes;
  return true;
}

}  // namespace zeroshard::zero
