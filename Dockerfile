# A static image of the commands, for any user and without a shell:
#
#   docker build -t erpc .
#   docker run --rm -p 31850:31850/udp erpc
#
# The build needs the base image and the Go module proxy, nothing else. Tests in
# internal/packaging run the RUN lines by hand and start the result as an unprivileged user.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/ ./cmd/erpc ./cmd/erpc-kv ./cmd/erpc-index

FROM scratch
COPY --from=build /out/ /usr/local/bin/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY LICENSE THIRD_PARTY.txt /
USER 65532:65532
EXPOSE 31850/udp
HEALTHCHECK CMD ["/usr/local/bin/erpc", "ping", "127.0.0.1:31850", "--count", "1"]
ENTRYPOINT ["/usr/local/bin/erpc"]
CMD ["server", "--addr", ":31850"]
