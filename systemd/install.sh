#!/bin/sh
# Installs the gateway as a system service, from an installed package or from a clone that was built. Run again after an upgrade: units are replaced,
# settings and policy stay as they are. uninstall.sh undoes it.
set -eu

usage() {
  cat <<'TEXT'
usage: install.sh [--node PATH] [--no-start] [--no-socket]

  --node PATH   the Node that runs the gateway (default: the one in PATH)
  --no-start    puts the files in place, starts nothing
  --no-socket   without the socket unit: clients are refused while the service restarts

DESTDIR=FOLDER puts everything below FOLDER and starts nothing.
TEXT
}

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

node=''
start=yes
socket=yes
while [ $# -gt 0 ]; do
  case $1 in
    --node)
      [ $# -ge 2 ] || fail '--node takes a path'
      node=$2
      shift
      ;;
    --no-start) start=no ;;
    --no-socket) socket=no ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
done

DESTDIR=${DESTDIR:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
package=$(dirname -- "$here")
main=$package/build/src/main.js
[ -f "$main" ] || fail "$main is missing; in a clone run npm run build first"

[ -n "$node" ] || node=$(command -v node) || fail 'there is no node in PATH; name it with --node PATH'
[ -x "$node" ] || fail "$node is no program"
node=$(readlink -f -- "$node")
"$node" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  fail "$node is older than 20.19"

if [ -z "$DESTDIR" ]; then
  [ "$(id -u)" = 0 ] || fail 'must be run as root (or with DESTDIR)'
  for path in "$node" "$main"; do
    case $path in
      /home/* | /root/* | /run/user/* | /tmp/* | /var/tmp/*)
        fail "$path is in a folder that the service cannot see; install Node and the package for all users (npm install --global)"
        ;;
    esac
  done
fi
case $node$main in
  *[!A-Za-z0-9_./@+-]*) fail "the paths of Node and of the package may have letters, digits and _ . / @ + - only: $node, $main" ;;
esac

units=$DESTDIR/etc/systemd/system
etc=$DESTDIR/etc/ai-request-gateway
install -d -m 755 "$units" "$etc"

sed "s#^ExecStart=.*#ExecStart=$node $main start#; s#^Documentation=.*#Documentation=file://$package/README.md#" \
  "$here/ai-request-gateway.service" >"$units/ai-request-gateway.service.new"
if [ "$socket" = yes ]; then
  sed "s#^Documentation=.*#Documentation=file://$package/README.md#" "$here/ai-request-gateway.socket" >"$units/ai-request-gateway.socket.new"
else
  [ ! -e "$units/ai-request-gateway.socket" ] || fail 'the socket unit is installed; run uninstall.sh first'
  sed -i 's# ai-request-gateway\.socket$##' "$units/ai-request-gateway.service.new"
fi
for unit in ai-request-gateway.service ai-request-gateway.socket; do
  [ -f "$units/$unit.new" ] || continue
  chmod 644 "$units/$unit.new"
  mv "$units/$unit.new" "$units/$unit"
  echo "installed $units/$unit"
done

# What is there already is the user's.
if [ ! -e "$etc/policies" ]; then
  cp -R "$package/policies" "$etc/policies"
  chmod -R u+rwX,go+rX,go-w "$etc/policies"
  echo "installed $etc/policies"
fi
if [ ! -e "$etc/environment" ]; then
  install -m 600 "$here/environment" "$etc/environment"
  echo "installed $etc/environment"
fi

if [ -n "$DESTDIR" ] || [ "$start" = no ]; then exit 0; fi
[ -d /run/systemd/system ] || fail 'the files are in place, but systemd does not run here'
systemctl daemon-reload
if [ "$socket" = yes ]; then
  # A service that runs already holds the ports, so that the socket comes first only where it does not.
  if ! systemctl is-active --quiet ai-request-gateway.socket; then systemctl stop ai-request-gateway.service; fi
  systemctl enable --now ai-request-gateway.socket
fi
systemctl enable ai-request-gateway.service
systemctl restart ai-request-gateway.service
echo 'started; systemctl status ai-request-gateway, journalctl --unit ai-request-gateway'
