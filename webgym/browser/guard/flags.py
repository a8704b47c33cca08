"""What a browser must be told so that nothing goes around the guard.

Each session's traffic goes to its channel by the proxy of its own browser context. These flags
close what no proxy covers: WebRTC sends datagrams directly, and looks up names by itself; and what
the browser sends for itself, outside of all sessions, is sent to a proxy that does not exist.
"""

PROXY_BYPASS = "<-loopback>"
"""The bypass list of a session's context: by default, browsers go to loopback directly."""

GUARDED_FLAGS = (
    # One is read by chromium-headless-shell, the other by Chromium and Chrome.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-server=socks5://127.0.0.1:1",
    f"--proxy-bypass-list={PROXY_BYPASS}",
    "--disable-quic",
)
