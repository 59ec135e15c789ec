# The gateway in a container: docs/guides/docker.md. The tag names a line of Node; whoever needs the same bytes every time pins the digest that
# `docker buildx imagetools inspect node:24-bookworm-slim` prints.
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# No install script runs: the one native module brings its compiled form.
RUN ["npm", "ci", "--ignore-scripts"]
COPY . .
# The commit that `gw version` names: its 40 digits, since no git history reaches the builder.
ARG BUILD_COMMIT=
RUN ["npm", "run", "build"]
# The image holds what the npm package holds, with exactly the dependencies of the lock file.
RUN ["npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", ".."]
WORKDIR /app
RUN ["sh", "-c", "tar --extract --gzip --strip-components 1 --file ../ai-request-gateway-*.tgz"]
COPY package-lock.json .npmrc ./
RUN ["npm", "ci", "--omit=dev", "--ignore-scripts"]
RUN ["rm", "package-lock.json", ".npmrc"]

FROM node:24-bookworm-slim
COPY --from=build /app /opt/ai-request-gateway
# A named volume takes over content and owner of these folders when it is used for the first time.
RUN ["install", "--directory", "--owner", "10001", "--group", "10001", "--mode", "0700", "/var/lib/ai-request-gateway", "/var/lib/ai-request-gateway/data", "/var/lib/ai-request-gateway/ca"]
RUN ["install", "--directory", "--owner", "10001", "--group", "10001", "--mode", "0750", "/etc/ai-request-gateway", "/etc/ai-request-gateway/credentials"]
RUN ["cp", "--recursive", "/opt/ai-request-gateway/policies", "/etc/ai-request-gateway/policies"]
RUN ["ln", "--symbolic", "/opt/ai-request-gateway/build/src/main.js", "/usr/local/bin/gw"]
RUN ["chmod", "0755", "/opt/ai-request-gateway/build/src/main.js"]

# UV_THREADPOOL_SIZE is read before the program's first line. In a container loopback is nobody's, so that the ports are open to whoever reaches the
# container, and every caller has to show a token.
ENV NODE_ENV=production \
    UV_THREADPOOL_SIZE=16 \
    GW_HOST=0.0.0.0 \
    GW_PROXY_AUTH=required \
    GW_DATA_DIR=/var/lib/ai-request-gateway/data \
    GW_CA_DIR=/var/lib/ai-request-gateway/ca \
    GW_POLICIES_DIR=/etc/ai-request-gateway/policies \
    GW_CREDENTIALS_DIR=/etc/ai-request-gateway/credentials
WORKDIR /var/lib/ai-request-gateway
USER 10001:10001
EXPOSE 7080 7081
VOLUME ["/var/lib/ai-request-gateway/data", "/var/lib/ai-request-gateway/ca", "/etc/ai-request-gateway/policies", "/etc/ai-request-gateway/credentials"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["node", "/opt/ai-request-gateway/deploy/docker/healthcheck.mjs"]
ENTRYPOINT ["node", "/opt/ai-request-gateway/build/src/main.js"]
CMD ["start"]
