#include "zeroshard/comm/rendezvous/server.h"

#include <chrono>
#include <utility>

#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "zeroshard/comm/store.h"

namespace zeroshard::comm {
namespace {

// A value, a key, and what Protobuf adds; the keys of a Wait of a thousand ranks.
constexpr int kMostMessageBytes = static_cast<int>(kMaxStoreValueBytes) + (1 << 16);
constexpr int kMostStreamsPerConnection = 64;

}  // namespace

RendezvousServer::RendezvousServer() = default;

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(ServerOptions options) {
  std::unique_ptr<RendezvousServer> made(new RendezvousServer());
  made->service_ = std::make_unique<RendezvousService>(std::move(options));
  grpc::ServerBuilder builder;
  builder.RegisterService(made->service_.get());
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreamsPerConnection);
  made->server_ = builder.BuildAndStart();
  if (made->server_ == nullptr) return absl::UnavailableError("rendezvous: gRPC's server does not start");
  return made;
}

RendezvousServer::~RendezvousServer() {
  if (server_ == nullptr) return;
  service_->Close();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_->Wait();
}

void RendezvousServer::Adopt(Socket connection) { grpc::AddInsecureChannelFromFd(server_.get(), connection.release()); }

void RendezvousServer::AwaitArrivals(absl::Duration limit) { service_->AwaitArrivals(limit); }
void RendezvousServer::AwaitDepartures(absl::Duration limit) { service_->AwaitDepartures(limit); }

}  // namespace zeroshard::comm
